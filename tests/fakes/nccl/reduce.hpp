#pragma once

#include <span>

#include "nccl/abi.hpp"

namespace fake_nccl {

/// Reduces `count` elements of every source, in order of rank and rounding to the dtype after each
/// step, as a ring does it.
void reduce_elements(Dtype dtype, Reduction reduction, std::span<const std::byte* const> sources,
                     std::byte* result, size_t count);

}  // namespace fake_nccl
