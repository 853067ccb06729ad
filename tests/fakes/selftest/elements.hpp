#pragma once

#include <cstddef>
#include <vector>

#include "selftest/rank.hpp"

namespace selftest {

/// NCCL's numbers for data types.
enum Dtype : int {
  kInt8,
  kUint8,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat16,
  kFloat32,
  kFloat64,
  kBfloat16,
  kFp8e4m3,
  kFp8e5m2,
  kDtypes,
};
size_t element_bytes(int dtype);

/// Whole numbers as elements of a data type, in device memory.
class Elements {
 public:
  Elements(const Rank& rank, int dtype, const std::vector<int>& values);
  void set(const std::vector<int>& values);
  bool holds(const std::vector<int>& values, size_t first = 0) const;
  void* at(size_t element) const;
  const void* from(size_t element) const { return at(element); }

 private:
  std::vector<unsigned char> encode(const std::vector<int>& values) const;

  const Rank& rank_;
  const int dtype_;
  void* memory_;
};

}  // namespace selftest
