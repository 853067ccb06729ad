#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cclmark {

/// Where memory lies. `shared_host`: host memory that other processes can map.
enum class MemoryPlace : uint8_t { device, host, shared_host, pinned_host };

/// Memory that a rank has allocated, or has mapped from another process.
struct MemoryBlock {
  std::string purpose = {};
  MemoryPlace place = MemoryPlace::device;
  size_t bytes = 0;
  /// Of these, what one operation reads or writes; 0 where that is unknown or nothing.
  size_t used_bytes = 0;
  /// The first elements of the content, in words; empty where it has no elements.
  std::string first_values = {};
  /// Virtual, in this process; nullptr for memory that exists only during a call.
  const void* address = nullptr;
  /// Another process has allocated the memory, or shares the allocation with this rank.
  bool mapped = false;
  /// Allocated by the library under measurement, else by cclmark for the measurement.
  bool of_library = false;
};

/// What a library reports about its own memory: a number by each of the library's own names.
using MemoryStatement = std::vector<std::pair<std::string, uint64_t>>;

inline std::string_view name(MemoryPlace place) {
  switch (place) {
    case MemoryPlace::device:
      return "device";
    case MemoryPlace::host:
      return "host";
    case MemoryPlace::shared_host:
      return "shared host";
    case MemoryPlace::pinned_host:
      return "pinned host";
  }
  return "";
}

}  // namespace cclmark
