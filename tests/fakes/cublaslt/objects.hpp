#pragma once

#include <cstddef>
#include <cstdint>

namespace fake_cublaslt {

/// cuBLAS's results that the fake gives, with the vendor's numbers.
enum Status : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kInvalidValue = 7,
  kArchitectureMismatch = 8,
  kInternalError = 14,
  kNotSupported = 15,
};

constexpr int kCompute32F = 68, kReal32F = 0, kReal16BF = 14;
constexpr int kWorkspaceBytes = 1, kReductions = 3;
constexpr uint32_t kEveryReduction = 7;

struct Library {};

struct Operation {
  int compute, scale;
};

/// A matrix in memory, column by column.
struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t stride;

  bool operator==(const Layout&) const = default;
  bool is_possible() const {
    return type == kReal16BF && rows > 0 && columns > 0 && stride >= static_cast<int64_t>(rows);
  }
  size_t elements() const { return static_cast<size_t>(stride) * columns; }
};

struct Preference {
  uint64_t workspace_bytes = 0;
  uint32_t reductions = kEveryReduction;
};

/// What the library keeps in the words of an algorithm: that it is one, and what it was found for.
struct Algorithm {
  uint64_t mark, rows, columns, inner, workspace_bytes, rest[3];
};
constexpr uint64_t kMark = 0x636c6d61726b4c74;
static_assert(sizeof(Algorithm) == 64);

struct Heuristic {
  Algorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

}  // namespace fake_cublaslt
