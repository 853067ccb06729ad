#pragma once

#include <memory>

#include "compute/compute.hpp"

namespace cclmark {

/// The floating-point operations of a product: a multiplication and an addition for each term.
inline double product_work(size_t order) {
  auto rows = static_cast<double>(order);
  return 2 * rows * rows * rows;
}

/// A product of bfloat16 matrices through cuBLASLt, with sums in float32. Multiplies once, so that
/// a device or a library without support fails here. Raises MissingError with the package to
/// install, UnsupportedError if the library cannot multiply on this device.
std::unique_ptr<Compute> make_blas_product(Device& device, size_t order);

}  // namespace cclmark
