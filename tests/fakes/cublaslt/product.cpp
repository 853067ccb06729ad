#include "cublaslt/product.hpp"

#include <utility>

#include "common/environment.hpp"
#include "nccl/number.hpp"

namespace fake_cublaslt {
namespace {

constexpr const char* kMisread = "CCLMARK_FAKE_CUBLASLT_MISREAD";

float element(const uint16_t* matrix, const Layout& layout, size_t row, size_t column) {
  if (fake_common::environment_is(kMisread, "transposed")) std::swap(row, column);
  size_t index = row + column * static_cast<size_t>(layout.stride);
  return fake_nccl::bfloat16_format().decode(matrix[index]);
}

}  // namespace

void Product::compute() const {
  const fake_nccl::SmallFormat& format = fake_nccl::bfloat16_format();
  const uint16_t *left = a, *right = b;
  if (fake_common::environment_is(kMisread, "factors")) std::swap(left, right);
  for (size_t column = 0; column < result.columns; ++column) {
    for (size_t row = 0; row < result.rows; ++row) {
      float sum = 0;
      for (size_t k = 0; k < first.columns; ++k) {
        sum += element(left, first, row, k) * element(right, second, k, column);
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
