#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <utility>

namespace fake_nccl {

/// NCCL's results, with its numbers.
enum Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

enum class Dtype : int {
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
  // Of other libraries: NCCL has no such numbers.
  int16,
  uint16,
};
constexpr std::array<size_t, 14> kDtypeBytes = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 2, 2};
constexpr size_t size_bytes(Dtype dtype) {
  return kDtypeBytes[static_cast<size_t>(dtype)];
}
constexpr bool is_fp8(Dtype dtype) {
  return dtype == Dtype::fp8e4m3 || dtype == Dtype::fp8e5m2;
}

/// The type that a caller's number stands for in this library; an operation refuses what is none.
constexpr Dtype dtype_of(int number) {
#ifdef CCLMARK_FAKE_WITHOUT_FP8
  constexpr Dtype kLast = Dtype::bfloat16;
#else
  constexpr Dtype kLast = Dtype::fp8e5m2;
#endif
  if (number > static_cast<int>(kLast)) return static_cast<Dtype>(-1);
  return static_cast<Dtype>(number);
}

enum class Reduction : int { sum, prod, max, min, avg };
constexpr int kReductionCount = 5;

struct UniqueId {
  char bytes[128];
};

constexpr int kSymmetricWindow = 1;
constexpr int kNoColor = -1;

/// Thrown inside, returned outside with the text as the last error.
struct Failure {
  Result code;
  std::string text;
};

inline void require(bool met, Result otherwise, const char* text) {
  if (!met) throw Failure{otherwise, text};
}

/// The version that the library claims to be, as 10000 × major + 100 × minor + patch.
int version();
}  // namespace fake_nccl
