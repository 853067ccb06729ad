#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

namespace cclmark::plugin {

/// The other plug-in's context of a communicator. Its finalize is called once, by the last thread
/// that uses the context.
class OthersContext {
 public:
  /// The other plug-in is called from now on.
  void begin(void* context) {
    context_ = context;
    is_begun_.store(true, std::memory_order_relaxed);
    users_.store(1, std::memory_order_release);  // the communicator
  }

  /// The communicator ends. Returns whether it is a user that has to leave.
  bool end() { return is_begun_.exchange(false, std::memory_order_relaxed); }

  /// Returns whether the other plug-in may be called until `leave`.
  bool enter() {
    std::uint32_t users = users_.load(std::memory_order_relaxed);
    while (users != 0 && !users_.compare_exchange_weak(users, users + 1, std::memory_order_acquire,
                                                       std::memory_order_relaxed)) {
    }
    return users != 0;
  }

  /// Returns whether the caller was the last user, and has to call the other plug-in's finalize.
  bool leave() { return users_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

  void* context() const { return context_; }

 private:
  void* context_ = nullptr;
  std::atomic<bool> is_begun_{false};
  std::atomic<std::uint32_t> users_{0};  // 0: not called
};

/// What a communicator's events have in common.
struct Context {
  std::uint64_t communicator = 0;
  int rank = -1;
  bool reads_v7 = false;          // the fields that only NVIDIA's v7 has
  bool requires_parents = false;  // for tasks and steps, the library reports none without one
  OthersContext other;
  Context* next = nullptr;  // of the ended ones
};

/// The contexts of this process, none of which is freed.
///
/// NCCL hands a communicator's context to its proxy thread, which several communicators share
/// (splitShare, and children of ncclCommSplit). That thread may report events of a communicator
/// that is finalized already. So an ended context keeps what it describes until `kKept` more have
/// ended; then it describes another communicator. Memory is bounded by the communicators that exist
/// at the same time and `kKept`.
class Contexts {
 public:
  static Contexts& instance() {
    static auto* const all = new Contexts;  // threads of NCCL may outlive main
    return *all;
  }

  /// nullptr if no memory is left.
  Context* make() {
    const std::lock_guard lock(mutex_);
    if (ended_ <= kKept) {
      return new (std::nothrow) Context;
    }
    Context* const oldest = first_;
    first_ = oldest->next;
    --ended_;
    oldest->next = nullptr;
    return oldest;
  }

  /// The communicator of a context has ended.
  void keep(Context* context) {
    const std::lock_guard lock(mutex_);
    (ended_++ == 0 ? first_ : last_->next) = context;
    last_ = context;
  }

 private:
  static constexpr std::size_t kKept = 1 << 16;  // 3 MiB

  std::mutex mutex_;
  Context* first_ = nullptr;  // the oldest
  Context* last_ = nullptr;
  std::size_t ended_ = 0;
};

}  // namespace cclmark::plugin
