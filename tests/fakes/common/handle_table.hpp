#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace fake_common {

/// Handles that name objects without pointing at them. None is used twice, so that the handle of
/// something destroyed is always recognised; and none is a valid address, so that a caller that
/// looks behind one crashes. `kind` keeps the handles of different tables apart.
template <typename T>
class HandleTable {
 public:
  explicit HandleTable(uint64_t kind) : next_(kind << 48) {}

  void* add(std::shared_ptr<T> object) {
    std::lock_guard lock(mutex_);
    next_ += 16;
    objects_[next_] = std::move(object);
    return reinterpret_cast<void*>(next_);
  }

  /// The object, or nullptr when the handle names none.
  std::shared_ptr<T> find(const void* handle) const {
    std::lock_guard lock(mutex_);
    auto entry = objects_.find(reinterpret_cast<uint64_t>(handle));
    return entry == objects_.end() ? nullptr : entry->second;
  }

  /// As find(), and the handle names nothing afterwards.
  std::shared_ptr<T> take(const void* handle) {
    std::lock_guard lock(mutex_);
    auto node = objects_.extract(reinterpret_cast<uint64_t>(handle));
    return node.empty() ? nullptr : std::move(node.mapped());
  }

  std::vector<std::shared_ptr<T>> all() const {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<T>> objects;
    for (const auto& [handle, object] : objects_) objects.push_back(object);
    return objects;
  }

  template <typename Predicate>
  std::vector<std::shared_ptr<T>> take_if(Predicate predicate) {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<T>> taken;
    for (auto entry = objects_.begin(); entry != objects_.end();) {
      if (!predicate(*entry->second)) {
        ++entry;
        continue;
      }
      taken.push_back(std::move(entry->second));
      entry = objects_.erase(entry);
    }
    return taken;
  }

 private:
  mutable std::mutex mutex_;
  uint64_t next_;
  std::map<uint64_t, std::shared_ptr<T>> objects_;
};

}  // namespace fake_common
