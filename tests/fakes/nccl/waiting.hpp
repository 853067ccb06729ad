#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "common/environment.hpp"
#include "nccl/abi.hpp"

namespace fake_nccl {

/// Thrown out of a wait when the communicator is aborted.
struct Stopped {};

inline std::chrono::seconds wait_limit() {
  constexpr unsigned long long kSeconds = 60;
  return std::chrono::seconds(fake_common::environment_number("CCLMARK_FAKE_TIMEOUT_S", kSeconds));
}

/// Looks until `done()`. Ranks outnumber processors, so it gives up the processor at once and
/// sleeps soon. Raises Stopped, or Failure when `limit` has passed.
template <typename Predicate>
void wait_until(Predicate done, const std::atomic<bool>& stop, std::chrono::seconds limit,
                const char* what) {
  constexpr int kYields = 200;
  constexpr std::chrono::microseconds kNap{50};
  using Clock = std::chrono::steady_clock;
  Clock::time_point deadline = Clock::now() + limit;
  for (int looks = 0; !done(); ++looks) {
    if (stop) throw Stopped{};
    if (looks < kYields) {
      sched_yield();
      continue;
    }
    if (Clock::now() > deadline) {
      throw Failure{kSystemError,
                    "timed out after " + std::to_string(limit.count()) + " s waiting for " + what};
    }
    std::this_thread::sleep_for(kNap);
  }
}

}  // namespace fake_nccl
