#pragma once

#include <chrono>
#include <cstdint>

namespace cclmark {

using Clock = std::chrono::steady_clock;

/// Nanoseconds of the steady clock (CLOCK_MONOTONIC).
inline int64_t now_ns() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

inline double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

/// The time at which a wait times out.
class Deadline {
 public:
  explicit Deadline(double seconds)
      : at_(Clock::now() +
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))),
        seconds_(seconds) {}

  bool passed() const { return Clock::now() >= at_; }
  /// The wait that was granted, for the message.
  double seconds() const { return seconds_; }

 private:
  Clock::time_point at_;
  double seconds_;
};

}  // namespace cclmark
