#pragma once

#include <cstddef>
#include <cstdint>

#include "core/clock.hpp"
#include "device/device.hpp"

namespace cclmark {

/// Readings of the host's steady clock before and after an event was recorded, in nanoseconds.
struct EventReference {
  int64_t before_ns = 0;
  int64_t after_ns = 0;
};

/// Records `reference` on an idle stream and returns when that was. `spare`: an event that is
/// overwritten. `wait`: returns when the stream is idle.
template <typename Wait>
EventReference record_reference(Device& device, void* stream, const Event& spare,
                                const Event& reference, const Wait& wait) {
  constexpr size_t kRounds = 8;
  EventReference shortest;
  // The event of an idle stream completes soon: the shortest of several is the most certain.
  for (size_t i = 0; i < kRounds; ++i) {
    wait();
    const int64_t before_ns = now_ns();
    device.record(spare.get(), stream);
    wait();
    const int64_t after_ns = now_ns();
    if (i > 0 && after_ns - before_ns >= shortest.after_ns - shortest.before_ns) continue;
    device.record(reference.get(), stream);
    wait();
    const auto later_ns =
        static_cast<int64_t>(device.elapsed_s(spare.get(), reference.get()) * 1e9);
    shortest = {before_ns + later_ns, after_ns + later_ns};
  }
  return shortest;
}

}  // namespace cclmark
