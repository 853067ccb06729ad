#include "cublaslt/product.hpp"

#include <utility>
#include <vector>

#include "common/environment.hpp"
#include "nccl/number.hpp"

namespace fake_cublaslt {
namespace {

constexpr const char* kMisread = "CCLMARK_FAKE_CUBLASLT_MISREAD";

/// The elements row by row, or column by column with `transposed`.
std::vector<float> decoded(const uint16_t* matrix, const Layout& layout, bool transposed) {
  const auto stride = static_cast<size_t>(layout.stride);
  std::vector<float> elements(layout.rows * layout.columns);
  for (size_t row = 0; row < layout.rows; ++row) {
    for (size_t column = 0; column < layout.columns; ++column) {
      size_t index = transposed ? column + row * stride : row + column * stride;
      elements[row * layout.columns + column] = fake_nccl::bfloat16_format().decode(matrix[index]);
    }
  }
  return elements;
}

}  // namespace

void Product::compute() const {
  const fake_nccl::SmallFormat& format = fake_nccl::bfloat16_format();
  const bool transposed = fake_common::environment_is(kMisread, "transposed");
  std::vector<float> left = decoded(a, first, transposed), right = decoded(b, second, transposed);
  if (fake_common::environment_is(kMisread, "factors")) std::swap(left, right);
  for (size_t column = 0; column < result.columns; ++column) {
    for (size_t row = 0; row < result.rows; ++row) {
      float sum = 0;
      for (size_t k = 0; k < first.columns; ++k) {
        sum += left[row * first.columns + k] * right[k * second.columns + column];
      }
      uint16_t& to = d[row + column * static_cast<size_t>(result.stride)];
      float before = beta == 0 ? 0 : beta * format.decode(to);
      to = static_cast<uint16_t>(format.encode(alpha * sum + before));
    }
  }
  constexpr uint16_t kSign = 0x8000;
  if (fake_common::environment_is_rank("CCLMARK_FAKE_CUBLASLT_WRONG", device)) d[0] ^= kSign;
}

}  // namespace fake_cublaslt
