#include "selftest/elements.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace selftest {
namespace {

struct FloatShape {
  int mantissa_bits;
  int bias;
};

/// The bits of a small whole number as a binary float that can hold it.
uint64_t float_bits(int value, FloatShape shape, size_t bytes) {
  if (value == 0) return 0;
  int magnitude = std::abs(value), exponent = 0;
  while (magnitude >> (exponent + 1) != 0) ++exponent;
  auto fraction = static_cast<uint64_t>(magnitude - (1 << exponent));
  int shift = shape.mantissa_bits - exponent;
  uint64_t mantissa = shift >= 0 ? fraction << shift : fraction >> -shift;
  uint64_t sign = static_cast<uint64_t>(value < 0) << (8 * bytes - 1);
  return sign | static_cast<uint64_t>(exponent + shape.bias) << shape.mantissa_bits | mantissa;
}

uint64_t bits_of(int value, int dtype) {
  size_t bytes = element_bytes(dtype);
  switch (dtype) {
    case kFloat16:
      return float_bits(value, {10, 15}, bytes);
    case kFloat32:
      return float_bits(value, {23, 127}, bytes);
    case kFloat64:
      return float_bits(value, {52, 1023}, bytes);
    case kBfloat16:
      return float_bits(value, {7, 127}, bytes);
    case kFp8e4m3:
      return float_bits(value, {3, 7}, bytes);
    case kFp8e5m2:
      return float_bits(value, {2, 15}, bytes);
    default:
      return static_cast<uint64_t>(static_cast<int64_t>(value));
  }
}

}  // namespace

size_t element_bytes(int dtype) {
  constexpr size_t kBytes[kDtypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return kBytes[dtype];
}

Elements::Elements(const Rank& rank, int dtype, const std::vector<int>& values)
    : rank_(rank), dtype_(dtype), memory_(rank.gpu.allocate(values.size() * element_bytes(dtype))) {
  set(values);
}

void Elements::set(const std::vector<int>& values) {
  std::vector<unsigned char> bytes = encode(values);
  rank_.gpu.write(memory_, bytes.data(), bytes.size());
}

bool Elements::holds(const std::vector<int>& values, size_t first) const {
  std::vector<unsigned char> bytes(values.size() * element_bytes(dtype_));
  rank_.gpu.read(bytes.data(), at(first), bytes.size());
  return bytes == encode(values);
}

void* Elements::at(size_t element) const {
  return static_cast<char*>(memory_) + element * element_bytes(dtype_);
}

std::vector<unsigned char> Elements::encode(const std::vector<int>& values) const {
  size_t width = element_bytes(dtype_);
  std::vector<unsigned char> bytes(values.size() * width);
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t bits = bits_of(values[i], dtype_);
    std::memcpy(bytes.data() + i * width, &bits, width);  // the machine is little-endian
  }
  return bytes;
}

}  // namespace selftest
