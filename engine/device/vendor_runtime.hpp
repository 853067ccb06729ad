#pragma once

#include <array>
#include <span>

#include "device/device.hpp"

namespace cclmark {

inline constexpr size_t kVendorRuntimes = 7;

/// The runtimes of vendor_runtime.cpp's table.
std::span<const Runtime> vendor_runtimes();

}  // namespace cclmark
