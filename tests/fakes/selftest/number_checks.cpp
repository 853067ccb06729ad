// The conversions against the compiler's half, and against values worked out by hand.

#include <bit>
#include <cmath>

#include "nccl/number.hpp"
#include "selftest/checks.hpp"
#include "selftest/harness.hpp"

namespace selftest {
namespace {

using namespace fake_nccl;

void check_half_and_bfloat16() {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    auto half = static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(bits)));
    float decoded = half_format().decode(bits);
    CHECK(half == decoded || (std::isnan(half) && std::isnan(decoded)));
    if (!std::isnan(half)) CHECK_EQUAL(half_format().encode(half), bits);
    auto wide = std::bit_cast<float>(bits << 16);
    if (!std::isnan(wide)) CHECK_EQUAL(bfloat16_format().encode(wide), bits);
    CHECK(std::isnan(wide) == std::isnan(bfloat16_format().decode(bits)));
  }
  // Floats all over the range, to see rounding.
  for (uint64_t bits = 1; bits < (1ull << 32); bits += 99991) {
    auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isnan(value)) continue;
    auto half = std::bit_cast<uint16_t>(static_cast<_Float16>(value));
    CHECK_EQUAL(half_format().encode(value), half);
  }
}

void check_fp8() {
  const SmallFormat& e4m3 = fp8e4m3_format();
  const SmallFormat& e5m2 = fp8e5m2_format();
  CHECK(e4m3.decode(0x38) == 1.0f && e4m3.decode(0x7e) == 448.0f);
  CHECK(e4m3.decode(0x01) == std::ldexp(1.0f, -9) && std::isnan(e4m3.decode(0xff)));
  CHECK(e5m2.decode(0x3c) == 1.0f && e5m2.decode(0x7b) == 57344.0f);
  CHECK(e5m2.decode(0x01) == std::ldexp(1.0f, -16) && std::isinf(e5m2.decode(0xfc)));
  // Ties go to the even neighbour; what is too large becomes the largest.
  CHECK_EQUAL(e4m3.encode(17.0f), e4m3.encode(16.0f));
  CHECK_EQUAL(e4m3.encode(19.0f), e4m3.encode(20.0f));
  CHECK_EQUAL(e4m3.encode(1e6f), 0x7e);
  CHECK_EQUAL(e4m3.encode(-INFINITY), 0xfe);
  CHECK_EQUAL(e5m2.encode(9.0f), e5m2.encode(8.0f));
  CHECK_EQUAL(e5m2.encode(1e6f), 0x7b);
  CHECK_EQUAL(e5m2.encode(-0.0f), 0x80);
  for (uint32_t bits = 0; bits < 256; ++bits) {
    if (!std::isnan(e4m3.decode(bits))) CHECK_EQUAL(e4m3.encode(e4m3.decode(bits)), bits);
    if (std::isfinite(e5m2.decode(bits))) CHECK_EQUAL(e5m2.encode(e5m2.decode(bits)), bits);
  }
}

}  // namespace

void number_checks() {
  run("half and bfloat16", 1, [](int) { check_half_and_bfloat16(); });
  run("8-bit floats", 1, [](int) { check_fp8(); });
}

}  // namespace selftest
