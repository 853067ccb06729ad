#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "compute/compute.hpp"
#include "compute/mismatches.hpp"
#include "device/device.hpp"

namespace cclmark {

/// The element type of the matrices: float32, or its upper half.
enum class MatrixType : uint8_t { float32, bfloat16 };

inline size_t element_bytes(MatrixType type) {
  return type == MatrixType::bfloat16 ? 2 : 4;
}

/// Two square factors and the place of their product, stored column by column.
///
/// Each factor consists of copies of one tile of small whole numbers, so that the product consists
/// of copies of a tile as well: every element of it is known, and can be compared on the device
/// without another matrix. Sums of such products are exact in float32 in any order. The number of
/// rows of a tile is prime: a product that puts blocks of it in the wrong place is wrong almost
/// everywhere, and so is one that transposes a factor or exchanges the two.
class TiledMatrices {
 public:
  /// Raises MissingError if no kernels can be compiled, OutOfMemoryError.
  TiledMatrices(Device& device, size_t order, MatrixType type);

  size_t order() const { return order_; }
  std::byte* first() const { return first_.data(); }
  std::byte* second() const { return second_.data(); }
  std::byte* product() const { return product_.data(); }

  /// Memory of `order` rows in bytes.
  static size_t bytes(size_t order, MatrixType type) {
    return 3 * order * order * element_bytes(type);
  }

  void poison(void* stream);
  ComputeFinding check(void* stream, const std::function<void()>& wait);

 private:
  static constexpr size_t kPeriod = 61;

  std::vector<float> numbers(unsigned seed) const;
  std::vector<float> expected() const;
  Buffer upload(const std::vector<float>& tile) const;
  void fill(std::byte* matrix, const Buffer& tile, void* stream);
  void launch(const Kernel& kernel, std::byte* matrix, const Buffer& tile, void* stream);
  double element(const std::byte* matrix, size_t index) const;

  Device& device_;
  size_t order_;
  MatrixType type_;
  std::vector<float> first_numbers_, second_numbers_, product_numbers_;
  Buffer first_tile_, second_tile_, product_tile_;
  Buffer first_, second_, product_;
  Mismatches mismatches_;
};

}  // namespace cclmark
