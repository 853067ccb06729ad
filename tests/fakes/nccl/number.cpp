#include "nccl/number.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fake_nccl {

SmallFormat::SmallFormat(int exponent_bits, int mantissa_bits, Top top)
    : exponent_bits_(exponent_bits),
      mantissa_bits_(mantissa_bits),
      top_(top),
      bias_((1 << (exponent_bits - 1)) - 1) {
  uint32_t top_exponent = ((1u << exponent_bits) - 1) << mantissa_bits;
  // Below infinity in the one case, below the NaN of all ones in the other.
  largest_ = top == Top::finite ? (1u << (exponent_bits + mantissa_bits)) - 2 : top_exponent - 1;
  uint32_t codes = 1u << (1 + exponent_bits + mantissa_bits);
  for (uint32_t bits = 0; bits < codes; ++bits) values_.push_back(define(bits));
}

float SmallFormat::define(uint32_t bits) const {
  uint32_t sign = bits >> (exponent_bits_ + mantissa_bits_);
  int exponent = static_cast<int>(bits >> mantissa_bits_) & ((1 << exponent_bits_) - 1);
  int mantissa = static_cast<int>(bits) & ((1 << mantissa_bits_) - 1);
  double magnitude;
  if ((bits & ((1u << (exponent_bits_ + mantissa_bits_)) - 1)) > largest_) {
    bool infinite = top_ != Top::finite && mantissa == 0;
    magnitude = infinite ? std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(mantissa, 1 - bias_ - mantissa_bits_);
  } else {
    magnitude = std::ldexp(mantissa + (1 << mantissa_bits_), exponent - bias_ - mantissa_bits_);
  }
  return static_cast<float>(sign != 0 ? -magnitude : magnitude);
}

uint32_t SmallFormat::encode(float value) const {
  uint32_t sign = std::signbit(value) ? 1u << (exponent_bits_ + mantissa_bits_) : 0;
  if (std::isnan(value)) {
    uint32_t all_ones = (1u << (exponent_bits_ + mantissa_bits_)) - 1;
    uint32_t quiet = largest_ + 1 + (1u << (mantissa_bits_ - 1));
    return top_ == Top::infinity ? quiet : all_ones;
  }
  uint32_t overflow = sign | (top_ == Top::infinity ? largest_ + 1 : largest_);
  if (std::isinf(value)) return overflow;
  if (value == 0) return sign;

  double magnitude = std::fabs(static_cast<double>(value));
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude is in [2^(exponent - 1), 2^exponent)
  int leading = std::max(exponent - 1, 1 - bias_);
  if (leading > 2 * bias_ + 1) return overflow;
  // The number of steps of the last mantissa bit. Up to 2^mantissa_bits of them the exponent field
  // is 0; from there on they overflow into it, as they do once more when rounding carries.
  double steps = std::nearbyint(std::ldexp(magnitude, mantissa_bits_ - leading));
  uint32_t bits =
      (static_cast<uint32_t>(leading + bias_ - 1) << mantissa_bits_) + static_cast<uint32_t>(steps);
  return bits > largest_ ? overflow : sign | bits;
}

const SmallFormat& half_format() {
  static const SmallFormat format(5, 10, SmallFormat::Top::infinity);
  return format;
}
const SmallFormat& bfloat16_format() {
  static const SmallFormat format(8, 7, SmallFormat::Top::infinity);
  return format;
}
const SmallFormat& fp8e4m3_format() {
  static const SmallFormat format(4, 3, SmallFormat::Top::finite);
  return format;
}
const SmallFormat& fp8e5m2_format() {
  static const SmallFormat format(5, 2, SmallFormat::Top::saturate);
  return format;
}

}  // namespace fake_nccl
