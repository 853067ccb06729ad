#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/operation.hpp"

namespace cclmark {

/// Bytes after which the pattern repeats, turned: see engine/kernels/pattern.cu.
inline constexpr size_t kTableBytes = 4096;
using Table = std::array<std::byte, kTableBytes>;

/// The input of `rank` of `ranks` for `operation`: values chosen so that their reduction has one
/// exact result in the dtype, in whatever order a library combines them.
Table input_table(const Operation& operation, int rank, int ranks, uint32_t seed);

/// The reduction of the input tables of all ranks, computed in exact arithmetic.
Table reduced_table(const Operation& operation, int ranks, uint32_t seed);

/// The bytes of element `element` of the pattern created from `table`.
std::array<std::byte, 8> pattern_element(const Table& table, Dtype dtype, size_t element,
                                         uint32_t seed);

}  // namespace cclmark
