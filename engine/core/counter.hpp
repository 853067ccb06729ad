#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cclmark {

/// How far a rank has come with its communicator, in memory that others read while the rank hangs.
/// All zeros means that no communicator was created yet. Readers must load `complete` before
/// `entered`: each is correct by itself, and so is their order.
///
/// An operation is what was asked for: it counts once, whatever it is composed of. It is *entered*
/// just before the call that hands it to the library. What was captured in a graph is taken back
/// when the capture ends: each launch of the graph then enters all of its operations at once. It is
/// known to be *complete* when the host saw that: when the stream was found idle, or when the call
/// returned, where a call only returns when its work is done.
class OperationCounter {
 public:
  struct Words {
    std::atomic<uint64_t> communicators;
    std::atomic<uint64_t> entered;
    std::atomic<uint64_t> complete;
    std::atomic<uint64_t> before_batch;  ///< entered before the batch that runs
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free);

  /// Counts in private memory.
  OperationCounter() : words_(&own_) {}
  /// Counts in the file, which must reach so far. The descriptor stays the caller's.
  /// `offset` is a multiple of the size of `Words`. Raises Error.
  OperationCounter(int fd, size_t offset);
  ~OperationCounter();
  OperationCounter(const OperationCounter&) = delete;
  OperationCounter& operator=(const OperationCounter&) = delete;

  /// Restarts the counts for a new communicator.
  void restart();
  void begin_batch() { put(words_->before_batch, get(words_->entered)); }
  void enter(uint64_t operations = 1) { put(words_->entered, get(words_->entered) + operations); }
  uint64_t entered() const { return get(words_->entered); }
  /// Resets `entered` to `operations`, because the later ones will not run.
  void take_back_to(uint64_t operations);
  /// All operations entered are complete.
  void complete() { put(words_->complete, get(words_->entered)); }

 private:
  // One thread writes, so there is nothing to add atomically: a load and a store each.
  static uint64_t get(const std::atomic<uint64_t>& word) {
    return word.load(std::memory_order_relaxed);
  }
  static void put(std::atomic<uint64_t>& word, uint64_t value) {
    word.store(value, std::memory_order_relaxed);
  }

  Words own_{};
  Words* words_;
  std::byte* page_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace cclmark
