#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>

namespace fake_cuda {

/// Things by the memory that they occupy: `std::byte* first` and `size_t bytes` of each say where.
template <typename T>
class RangeTable {
 public:
  void add(std::shared_ptr<T> range) {
    std::lock_guard lock(mutex_);
    uintptr_t first = reinterpret_cast<uintptr_t>(range->first);
    ranges_[first] = std::move(range);
  }

  /// What the whole range lies in, or nullptr.
  std::shared_ptr<T> find(const void* memory, size_t bytes) const {
    std::lock_guard lock(mutex_);
    auto next = ranges_.upper_bound(reinterpret_cast<uintptr_t>(memory));
    if (next == ranges_.begin()) return nullptr;
    const auto& [first, range] = *std::prev(next);
    size_t offset = reinterpret_cast<uintptr_t>(memory) - first;
    bool inside = offset < range->bytes && bytes <= range->bytes - offset;
    return inside ? range : nullptr;
  }

  bool overlaps(const void* memory, size_t bytes) const {
    std::lock_guard lock(mutex_);
    auto begin = reinterpret_cast<uintptr_t>(memory);
    auto next = ranges_.lower_bound(begin);
    if (next != ranges_.end() && next->first - begin < bytes) return true;
    return next != ranges_.begin() &&
           begin - std::prev(next)->first < std::prev(next)->second->bytes;
  }

  /// What begins there, or nullptr; it is not in the table afterwards.
  std::shared_ptr<T> take(const void* first) {
    std::lock_guard lock(mutex_);
    auto node = ranges_.extract(reinterpret_cast<uintptr_t>(first));
    return node.empty() ? nullptr : std::move(node.mapped());
  }

  template <typename Predicate>
  std::shared_ptr<T> find_if(Predicate predicate) const {
    std::lock_guard lock(mutex_);
    for (const auto& [first, range] : ranges_) {
      if (predicate(*range)) return range;
    }
    return nullptr;
  }

  template <typename Predicate>
  void remove_if(Predicate predicate) {
    std::lock_guard lock(mutex_);
    std::erase_if(ranges_, [&](const auto& entry) { return predicate(*entry.second); });
  }

 private:
  mutable std::mutex mutex_;
  std::map<uintptr_t, std::shared_ptr<T>> ranges_;
};

}  // namespace fake_cuda
