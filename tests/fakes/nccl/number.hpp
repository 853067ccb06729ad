#pragma once

#include <cstdint>
#include <vector>

namespace fake_nccl {

/// A binary float of 8 or 16 bits, worked on by its definition: value = mantissa × 2^exponent. Slow
/// and plain on purpose, and independent of the engine's, so that the two check each other.
class SmallFormat {
 public:
  enum class Top {
    infinity,  ///< the largest exponent means infinity and NaN; too large values become infinity
    saturate,  ///< the same, but too large values become the largest finite one
    finite,    ///< only all ones mean NaN; too large values become the largest finite one
  };
  SmallFormat(int exponent_bits, int mantissa_bits, Top top);

  float decode(uint32_t bits) const { return values_[bits]; }
  /// Rounds to nearest, ties to even.
  uint32_t encode(float value) const;

 private:
  float define(uint32_t bits) const;

  int exponent_bits_;
  int mantissa_bits_;
  Top top_;
  int bias_;
  uint32_t largest_;  ///< bits of the largest finite value
  std::vector<float> values_;
};

const SmallFormat& half_format();
const SmallFormat& bfloat16_format();
const SmallFormat& fp8e4m3_format();
const SmallFormat& fp8e5m2_format();

}  // namespace fake_nccl
