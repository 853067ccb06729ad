#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace cclmark {

/// Element types, numbered as NCCL numbers them; those that NCCL lacks follow.
enum class Dtype : uint8_t {
  int8,
  uint8,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  float32,
  float64,
  bfloat16,
  fp8e4m3,
  fp8e5m2,
  int16,
  uint16,
};

/// Reductions, numbered as NCCL numbers them.
enum class Reduction : uint8_t { sum, prod, max, min, avg };

struct DtypeInfo {
  std::string_view name;
  size_t size_bytes;
  bool is_float;
  bool is_signed;
  /// Floats only: bits of the significand after the leading one, bits of the exponent.
  int mantissa_bits;
  int exponent_bits;
};

inline constexpr std::array<DtypeInfo, 14> kDtypes = {{
    {"int8", 1, false, true, 0, 0},
    {"uint8", 1, false, false, 0, 0},
    {"int32", 4, false, true, 0, 0},
    {"uint32", 4, false, false, 0, 0},
    {"int64", 8, false, true, 0, 0},
    {"uint64", 8, false, false, 0, 0},
    {"float16", 2, true, true, 10, 5},
    {"float32", 4, true, true, 23, 8},
    {"float64", 8, true, true, 52, 11},
    {"bfloat16", 2, true, true, 7, 8},
    {"fp8e4m3", 1, true, true, 3, 4},
    {"fp8e5m2", 1, true, true, 2, 5},
    {"int16", 2, false, true, 0, 0},
    {"uint16", 2, false, false, 0, 0},
}};

inline constexpr std::array<std::string_view, 5> kReductions = {"sum", "prod", "max", "min", "avg"};

inline const DtypeInfo& info(Dtype dtype) {
  return kDtypes[static_cast<size_t>(dtype)];
}
inline size_t size_bytes(Dtype dtype) {
  return info(dtype).size_bytes;
}
inline std::string_view name(Dtype dtype) {
  return info(dtype).name;
}
inline std::string_view name(Reduction reduction) {
  return kReductions[static_cast<size_t>(reduction)];
}

inline Dtype parse_dtype(std::string_view text) {
  for (size_t i = 0; i < kDtypes.size(); ++i) {
    if (kDtypes[i].name == text) return static_cast<Dtype>(i);
  }
  throw Error("unknown dtype " + std::string(text));
}

inline Reduction parse_reduction(std::string_view text) {
  for (size_t i = 0; i < kReductions.size(); ++i) {
    if (kReductions[i] == text) return static_cast<Reduction>(i);
  }
  throw Error("unknown reduction " + std::string(text));
}

}  // namespace cclmark
