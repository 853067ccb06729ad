#pragma once

#include <cstdint>

#include "cublaslt/objects.hpp"

namespace fake_cublaslt {

/// d = alpha × a × b + beta × d, of bfloat16 matrices with sums in float32.
struct Product {
  float alpha, beta;
  const uint16_t* a;
  const uint16_t* b;
  uint16_t* d;
  Layout first, second, result;
  int device;

  void compute() const;
};

}  // namespace fake_cublaslt
