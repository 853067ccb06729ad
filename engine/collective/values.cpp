#include "collective/values.hpp"

#include <bit>
#include <cstdio>

#include "core/dtype.hpp"
#include "core/number.hpp"

namespace cclmark {
namespace {

std::string shortest(double value, int digits) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.*g", digits, value);
  return text;
}

template <typename T>
std::string small(uint64_t bits) {
  T value;
  value.bits = static_cast<decltype(value.bits)>(bits);
  return shortest(static_cast<double>(static_cast<float>(value)), 6);
}

}  // namespace

std::string format_value(const std::string& dtype, uint64_t bits) {
  switch (parse_dtype(dtype)) {
    case Dtype::int8:
      return std::to_string(static_cast<int8_t>(bits));
    case Dtype::uint8:
      return std::to_string(static_cast<uint8_t>(bits));
    case Dtype::int16:
      return std::to_string(static_cast<int16_t>(bits));
    case Dtype::uint16:
      return std::to_string(static_cast<uint16_t>(bits));
    case Dtype::int32:
      return std::to_string(static_cast<int32_t>(bits));
    case Dtype::uint32:
      return std::to_string(static_cast<uint32_t>(bits));
    case Dtype::int64:
      return std::to_string(static_cast<int64_t>(bits));
    case Dtype::uint64:
      return std::to_string(bits);
    case Dtype::float16:
      return small<Half>(bits);
    case Dtype::float32:
      return shortest(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits))), 9);
    case Dtype::float64:
      return shortest(std::bit_cast<double>(bits), 17);
    case Dtype::bfloat16:
      return small<Bfloat16>(bits);
    case Dtype::fp8e4m3:
      return small<Fp8e4m3>(bits);
    case Dtype::fp8e5m2:
      return small<Fp8e5m2>(bits);
  }
  return "?";
}

}  // namespace cclmark
