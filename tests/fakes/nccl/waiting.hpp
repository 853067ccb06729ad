#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "common/environment.hpp"
#include "nccl/abi.hpp"

namespace fake_nccl {

/// Thrown out of a wait when the communicator is aborted.
struct Stopped {};

inline std::chrono::seconds wait_limit() {
  constexpr unsigned long long kSeconds = 60;
  return std::chrono::seconds(fake_common::environment_number("CCLMARK_FAKE_TIMEOUT_S", kSeconds));
}

/// A word in shared memory that rings when something has changed. Ranks outnumber processors, so
/// those that wait sleep: one that looked again and again would keep away the one it waits for.
class Bell {
 public:
  void ring();
  uint32_t rings() const { return rings_; }
  /// Sleeps until there are more rings than `heard`, or for a moment.
  void listen(uint32_t heard);

 private:
  std::atomic<uint32_t> rings_{0};
};

/// Looks until `done()`, each time `bell` rings. Raises Stopped, or Failure when `limit` has
/// passed.
template <typename Predicate>
void wait_until(Predicate done, Bell& bell, const std::atomic<bool>& stop,
                std::chrono::seconds limit, const char* what) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point deadline = Clock::now() + limit;
  for (;;) {
    uint32_t heard = bell.rings();
    if (done()) return;
    if (stop) throw Stopped{};
    if (Clock::now() > deadline) {
      throw Failure{kSystemError,
                    "timed out after " + std::to_string(limit.count()) + " s waiting for " + what};
    }
    bell.listen(heard);
  }
}

}  // namespace fake_nccl
