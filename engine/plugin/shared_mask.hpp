#pragma once

#include <atomic>
#include <mutex>

namespace cclmark::plugin {

/// The types of events that NCCL reports to this plug-in and to another one.
///
/// NCCL has one integer for a process, to which the plug-in writes at any time. The other plug-in
/// gets a separate integer instead. NCCL's contains the types that either one asks for; it is
/// updated at the next event after a change.
class SharedMask {
 public:
  /// The integer for the other plug-in: NCCL's own one if this plug-in asks for nothing, since
  /// then no event would follow a change from nothing.
  int* for_other(int* nccl, int own) {
    const std::lock_guard lock(mutex_);
    other_ = own != 0 ? &integer_ : nccl;
    return other_;
  }

  /// Begins to update NCCL's integer, after the init of the other plug-in.
  void begin(int* nccl, int own) {
    const std::lock_guard lock(mutex_);
    if (own == 0) {
      return;
    }
    own_ = own;
    seen_ = load(integer_);
    written_ = seen_ | own;
    store(*nccl, written_);
    nccl_ = nccl;
  }

  /// Updates NCCL's integer if the other plug-in has changed its own one.
  void update() {
    int* nccl = nccl_;
    if (nccl == nullptr || !has_changed(*nccl)) {
      return;
    }
    const std::lock_guard lock(mutex_);
    const int current = load(*nccl);
    if (current != written_) {
      // Set from outside, for example by NCCL's RAS client: meant for every plug-in.
      store(integer_, current);
      seen_ = current;
      written_ = current;
    } else if (const int wanted = load(integer_); wanted != seen_) {
      seen_ = wanted;
      written_ = wanted | own_;
      store(*nccl, written_);
    }
  }

  /// The types that the other plug-in asks for.
  int of_other() const {
    int* other = other_;
    return other != nullptr ? load(*other) : 0;
  }

 private:
  static int load(int& integer) {
    return std::atomic_ref<int>(integer).load(std::memory_order_relaxed);
  }
  static void store(int& integer, int value) {
    std::atomic_ref<int>(integer).store(value, std::memory_order_relaxed);
  }
  bool has_changed(int& nccl) { return load(integer_) != seen_ || load(nccl) != written_; }

  std::mutex mutex_;
  std::atomic<int*> nccl_{nullptr};
  std::atomic<int*> other_{nullptr};
  std::atomic<int> seen_{0};     // the other plug-in's integer when it was last read
  std::atomic<int> written_{0};  // what NCCL's integer contains because of this class
  int own_ = 0;
  int integer_ = 0;
};

}  // namespace cclmark::plugin
