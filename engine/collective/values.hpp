#pragma once

#include <cstdint>
#include <string>

namespace cclmark {

/// Formats the value of the bits of one element for a user.
/// Raises Error for an unknown dtype.
std::string format_value(const std::string& dtype, uint64_t bits);

}  // namespace cclmark
