#pragma once

#include <cstdint>
#include <functional>

#include "device/device.hpp"

namespace cclmark {

/// Counters in a device's memory: the number of wrong elements, and the index of the first one.
class Mismatches {
 public:
  explicit Mismatches(Device& device)
      : device_(device), counters_(device, 2 * sizeof(unsigned long long)) {}

  void reset(void* stream) {
    device_.fill_bytes(count(), 0, sizeof(unsigned long long), stream);
    device_.fill_bytes(first(), 0xff, sizeof(unsigned long long), stream);
  }
  unsigned long long* count() const {
    return reinterpret_cast<unsigned long long*>(counters_.data());
  }
  unsigned long long* first() const { return count() + 1; }

  struct Values {
    unsigned long long wrong;
    unsigned long long first;
  };
  /// To be called when the stream of the check is idle.
  Values read() {
    Values values;
    device_.copy_to_host(&values, counters_.data(), sizeof(values));
    return values;
  }

 private:
  Device& device_;
  Buffer counters_;
};

}  // namespace cclmark
