#pragma once

#include <sched.h>
#include <time.h>

#include <cstdint>

#include "core/clock.hpp"

namespace cclmark {

inline void relax_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Keeps a long wait from occupying a processor. So long last hangs, work of other ranks that is
/// not timed, and operations of which the sleeps are less than a thousandth.
class LongWait {
 public:
  /// Must be called after each unsuccessful look. Returns whether it slept.
  bool pause() {
    if (sleep_ns_ < kLongSleepNs && ++looks_ % kLooksPerClock == 0) look_at_clock();
    if (sleep_ns_ == 0) return false;
    timespec a_while{0, sleep_ns_};
    nanosleep(&a_while, nullptr);
    return true;
  }

 private:
  void look_at_clock() {
    const int64_t at_ns = now_ns();
    if (begin_ns_ == 0) begin_ns_ = at_ns;
    const int64_t waited_ns = at_ns - begin_ns_;
    if (waited_ns > kShortSleepsFromNs) sleep_ns_ = kShortSleepNs;
    if (waited_ns > kLongSleepsFromNs) sleep_ns_ = kLongSleepNs;
  }

  static constexpr uint32_t kLooksPerClock = 64;
  static constexpr int64_t kShortSleepsFromNs = 100'000'000, kLongSleepsFromNs = 1'000'000'000;
  static constexpr long kShortSleepNs = 50'000;  // and the timer's slack, usually as much
  static constexpr long kLongSleepNs = 500'000;
  uint32_t looks_ = 0;
  int64_t begin_ns_ = 0;
  long sleep_ns_ = 0;
};

/// The behaviour of a wait on another rank's memory between two reads, and the reads after which it
/// checks clocks.
///
/// A rank with a separate processor spins at first, and later yields between reads. Ranks that
/// share processors yield at once, so that the awaited rank runs, and soon sleep. The scheduler
/// counts every yield as a whole time slice: a rank that has yielded often runs milliseconds late
/// once another process is ready to run. A rank that rests while others measure sleeps from the
/// start, and longer. In a long wait all sleep.
class Patience {
 public:
  explicit Patience(bool oversubscribed, bool resting = false)
      : oversubscribed_(oversubscribed), resting_(resting) {}

  /// Must be called after each unsuccessful read. Returns whether to check flags and the deadline.
  bool pause() {
    if (resting_) {
      timespec a_while{0, kRestNs};
      nanosleep(&a_while, nullptr);
      return true;
    }
    ++looks_;
    if (!oversubscribed_ && looks_ <= kSpins) {
      relax_cpu();
    } else if (long_.pause()) {
      return true;
    } else if (!oversubscribed_ || looks_ <= kYields) {
      sched_yield();
    } else {
      timespec shortest{0, 1};  // about 50 us, the timer's slack
      nanosleep(&shortest, nullptr);
    }
    return looks_ % kLooksPerCheck == 0;
  }

 private:
  // Each look costs the ranks that measure on the same processor some microseconds.
  static constexpr long kRestNs = 2'000'000;
  static constexpr uint32_t kSpins = 4096;
  static constexpr uint32_t kYields = 64;
  static constexpr uint32_t kLooksPerCheck = 256;
  bool oversubscribed_;
  bool resting_;
  LongWait long_;
  uint32_t looks_ = 0;
};

}  // namespace cclmark
