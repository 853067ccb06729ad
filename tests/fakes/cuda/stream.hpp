#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "cuda/status.hpp"

namespace fake_cuda {

struct Context;

/// Something a device does; a Refusal that it raises is an error of its stream. A graph does it
/// again at each launch, so it cannot be used up.
using Work = std::shared_ptr<const std::function<void()>>;

enum class CaptureMode : int { global = 0, thread_local_ = 1, relaxed = 2 };

/// Work in order on a thread of its own: a caller that does not wait sees what was there before.
class Stream {
 public:
  static std::shared_ptr<Stream> start(std::shared_ptr<Context> context);
  explicit Stream(std::shared_ptr<Context> owner) : context(std::move(owner)) {}

  /// Raises Refusal when the stream is in a capture that has failed.
  void push(Work work);
  /// The next copy is enqueued only when the work before it is done.
  void block_next_copy() { blocks_copy_ = true; }
  void enter_copy() {
    if (blocks_copy_.exchange(false)) drain();
  }
  /// Whether all work is done; gives it up to `patience` for that.
  bool idle(std::chrono::microseconds patience);
  void drain();
  /// What work failed with; no work that comes after that is done.
  Status error() const;
  /// The thread ends when the work it has is done.
  void close();

  void begin_capture(CaptureMode mode);
  std::vector<Work> end_capture();
  bool capturing() const;
  /// Spoils the capture, if there is one that `thread` may not call unsafe functions during.
  bool spoil_capture(std::thread::id thread);

  const std::shared_ptr<Context> context;

 private:
  struct Capture {
    CaptureMode mode;
    std::thread::id thread;
    bool valid = true;
    std::vector<Work> work;
  };

  void work_off();

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable finished_;
  std::deque<Work> queue_;
  std::atomic<bool> blocks_copy_ = false;
  bool busy_ = false;
  bool closing_ = false;
  Status error_ = kSuccess;
  std::optional<Capture> capture_;
};

/// A point in a stream, with the time at which the stream got there.
class Event {
 public:
  /// One record of the event.
  class Mark {
   public:
    explicit Mark(std::shared_ptr<const Stream> recorder) : stream_(std::move(recorder)) {}
    void reach();
    /// Raises Refusal when the stream has failed and never gets there.
    bool reached() const;
    std::chrono::steady_clock::time_point time() const { return time_; }

   private:
    const std::shared_ptr<const Stream> stream_;
    std::chrono::steady_clock::time_point time_;
    std::atomic<bool> reached_{false};
  };

  Event(std::shared_ptr<Context> owner, bool timed) : context(std::move(owner)), timed_(timed) {}

  static void record(const std::shared_ptr<Event>& event, const std::shared_ptr<Stream>& stream);
  /// Raises Refusal unless both were recorded, with times, and reached.
  static float elapsed_ms(const Event& start, const Event& end);
  /// The last record so far, if any. Raises Refusal when that was in a capture.
  std::shared_ptr<const Mark> last() const;

  const std::shared_ptr<Context> context;

 private:
  std::chrono::steady_clock::time_point reached() const;

  const bool timed_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Mark> last_;
  bool captured_ = false;
};

/// What a capture recorded; instantiated, it can be launched.
struct Graph {
  std::shared_ptr<Context> context;
  std::vector<Work> work;
};
struct Executable : Graph {};

}  // namespace fake_cuda
