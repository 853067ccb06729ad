#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <random>

#include "core/number.hpp"

using namespace cclmark;

namespace {

/// The value of a pattern, straight from the definition of the format.
template <typename Bits, int Exponent, int Mantissa, bool Finite>
double defined_value(const SmallFloat<Bits, Exponent, Mantissa, Finite>& number) {
  int bias = (1 << (Exponent - 1)) - 1;
  int mantissa = number.bits & ((1 << Mantissa) - 1);
  int exponent = (number.bits >> Mantissa) & ((1 << Exponent) - 1);
  double sign = (number.bits >> (Exponent + Mantissa)) & 1 ? -1.0 : 1.0;
  int top = (1 << Exponent) - 1;
  if (exponent == top && Finite && mantissa == (1 << Mantissa) - 1) return NAN;
  if (exponent == top && !Finite) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - Mantissa);
  return sign * std::ldexp(mantissa + (1 << Mantissa), exponent - bias - Mantissa);
}

template <typename Number>
void check_all_patterns() {
  for (unsigned bits = 0; bits <= (sizeof(Number) == 1 ? 0xffu : 0xffffu); ++bits) {
    Number number;
    number.bits = static_cast<decltype(number.bits)>(bits);
    double expected = defined_value(number);
    auto value = static_cast<float>(number);
    CAPTURE(bits);
    if (std::isnan(expected)) {
      CHECK(std::isnan(value));
      CHECK(std::isnan(static_cast<float>(Number(value))));
      continue;
    }
    REQUIRE(static_cast<double>(value) == expected);
    REQUIRE(Number(value).bits == number.bits);
  }
}

/// Rounds by searching: the nearest of all patterns, the even one of two that are equally near.
template <typename Number>
void check_rounding(float largest) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> exponents(-20, std::log2(largest));
  for (int i = 0; i < 3000; ++i) {
    float value = std::exp2(exponents(random)) * (random() % 2 ? 1.0f : -1.0f);
    if (i % 3 == 0) {  // exactly between two neighbours
      Number low(value), high;
      high.bits = static_cast<decltype(high.bits)>(low.bits + 1);
      auto middle = (static_cast<float>(low) + static_cast<float>(high)) / 2;
      if (std::isfinite(middle)) value = middle;
    }
    Number rounded(value);
    double error = std::fabs(defined_value(rounded) - static_cast<double>(value));
    for (int step : {-1, 1}) {
      Number neighbour;
      neighbour.bits = static_cast<decltype(neighbour.bits)>(rounded.bits + step);
      double other = std::fabs(defined_value(neighbour) - static_cast<double>(value));
      if (!std::isfinite(other)) continue;
      CAPTURE(value);
      REQUIRE(error <= other);
      if (error == other) REQUIRE(rounded.bits % 2 == 0);
    }
  }
}

}  // namespace

TEST_CASE("every pattern of the small floats means what the format says") {
  check_all_patterns<Half>();
  check_all_patterns<Bfloat16>();
  check_all_patterns<Fp8e4m3>();
  check_all_patterns<Fp8e5m2>();
}

TEST_CASE("small floats round to nearest even") {
  check_rounding<Half>(60000);
  check_rounding<Bfloat16>(1e30f);
  check_rounding<Fp8e4m3>(440);
  check_rounding<Fp8e5m2>(50000);
}

TEST_CASE("what is too large overflows as the format says") {
  CHECK(std::isinf(static_cast<float>(Half(1e6f))));
  CHECK(std::isinf(static_cast<float>(Fp8e5m2(1e9f))));
  CHECK(std::isnan(static_cast<float>(Fp8e4m3(1000.0f))));  // it has no infinity
  CHECK(static_cast<float>(Fp8e4m3(448.0f)) == 448.0f);
  CHECK(static_cast<float>(Bfloat16(-INFINITY)) == -INFINITY);
}
