#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device.hpp"

namespace cclmark {

/// One reading of a device's clock, between two readings of the host's steady clock.
struct ClockSample {
  int64_t before_ns;
  int64_t device_ns;
  int64_t after_ns;
};

/// Reads the clock of a device `rounds` times. A device whose work runs in the call has the host's
/// clock. Raises MissingError if no kernels can be compiled for the device, Error if it does not
/// answer within seconds.
std::vector<ClockSample> sample_clock(Device& device, size_t rounds);

}  // namespace cclmark
