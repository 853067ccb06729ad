#pragma once

#include <cstdint>
#include <string>

namespace cclmark {

/// The value that the bits of one element stand for, as a person reads it.
/// Raises Error for an unknown dtype.
std::string format_value(const std::string& dtype, uint64_t bits);

}  // namespace cclmark
