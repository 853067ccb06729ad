#pragma once

#include <bit>
#include <cstdint>

namespace cclmark {

/// A small binary float, kept as its bits. Arithmetic is done in float and rounded to nearest even,
/// as the hardware does it. `Finite` formats (fp8e4m3) have no infinity: their largest exponent
/// holds numbers, and only the all-ones pattern is NaN. The conversions are free of branches that
/// would keep the compiler from vectorising a loop over them.
template <typename Bits, int Exponent, int Mantissa, bool Finite>
struct SmallFloat {
  static constexpr int kBias = (1 << (Exponent - 1)) - 1;
  static constexpr int kShift = 23 - Mantissa;
  static constexpr uint32_t kMagnitudeMask = (1u << (Exponent + Mantissa)) - 1;
  static constexpr uint32_t kTopExponent = ((1u << Exponent) - 1) << Mantissa;
  static constexpr uint32_t kNan = Finite ? kMagnitudeMask : kTopExponent | (1u << (Mantissa - 1));
  static constexpr uint32_t kLargest = (Finite ? kMagnitudeMask : kTopExponent) - 1;
  static constexpr uint32_t kOverflow = Finite ? kNan : kTopExponent;

  Bits bits = 0;

  SmallFloat() = default;

  explicit SmallFloat(float value) {
    constexpr float kSmallestNormal = std::bit_cast<float>(uint32_t(128 - kBias) << 23);
    // Adding this pushes the bits below the smallest subnormal out of the sum, rounding to nearest.
    constexpr uint32_t kMagic = uint32_t(127 + 24 - kBias - Mantissa) << 23;
    uint32_t raw = std::bit_cast<uint32_t>(value);
    uint32_t magnitude = raw & 0x7fffffffu;
    float absolute = std::bit_cast<float>(magnitude);

    uint32_t normal = magnitude - (uint32_t(127 - kBias) << 23);
    normal += (1u << (kShift - 1)) - 1 + ((normal >> kShift) & 1u);
    normal >>= kShift;
    uint32_t subnormal = std::bit_cast<uint32_t>(absolute + std::bit_cast<float>(kMagic)) - kMagic;

    uint32_t packed = absolute < kSmallestNormal ? subnormal : normal;
    packed = packed > kLargest ? kOverflow : packed;
    packed = magnitude >= 0x7f800000u ? kOverflow : packed;
    packed = magnitude > 0x7f800000u ? kNan : packed;
    bits = static_cast<Bits>(packed | ((raw >> 31) << (Exponent + Mantissa)));
  }

  explicit operator float() const {
    constexpr float kScale = std::bit_cast<float>(uint32_t(254 - kBias) << 23);
    uint32_t magnitude = bits & kMagnitudeMask;
    // Subnormals come out right because the multiplication normalises them.
    uint32_t raw = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << kShift) * kScale);
    uint32_t special = 0x7f800000u | (magnitude << kShift);
    bool is_special = Finite ? magnitude == kNan : magnitude >= kTopExponent;
    raw = is_special ? special : raw;
    return std::bit_cast<float>(raw | (uint32_t(bits >> (Exponent + Mantissa)) << 31));
  }
};

using Half = SmallFloat<uint16_t, 5, 10, false>;
using Bfloat16 = SmallFloat<uint16_t, 8, 7, false>;
using Fp8e4m3 = SmallFloat<uint8_t, 4, 3, true>;
using Fp8e5m2 = SmallFloat<uint8_t, 5, 2, false>;

}  // namespace cclmark
