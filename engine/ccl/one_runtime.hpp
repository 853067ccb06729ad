#pragma once

#include <cctype>
#include <string>

#include "core/library.hpp"
#include "device/device.hpp"

namespace cclmark {

/// Raises MissingError if this process has loaded two copies of the device's runtime. A library
/// that uses the other copy crashes when it gets streams and memory of the one that drives the
/// devices. Not checked for CUDA devices: NVIDIA's driver exists once on a machine.
inline void require_one_runtime(const DeviceInfo& device, const std::string& ccl_path) {
  bool single = device.runtime == "cuda" || device.library_path.empty();
  std::string other = single ? "" : twin_of(device.library_path);
  if (other.empty()) return;
  std::string variable = "CCLMARK_" + device.runtime + "_LIBRARY";
  for (char& letter : variable) letter = static_cast<char>(std::toupper(letter));
  throw MissingError("two files of one runtime are loaded: the devices are opened with " +
                     device.library_path + ", and " + ccl_path + " may use " + other + ". Set " +
                     variable + "=" + other);
}

}  // namespace cclmark
