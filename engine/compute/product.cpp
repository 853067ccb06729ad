// The matrix product of a device, by its runtime.

#include <algorithm>

#include "compute/blas_product.hpp"
#include "compute/compute.hpp"
#include "compute/tiled_matrices.hpp"

namespace cclmark {
namespace {

/// A product in float32 inside the call, in blocks that stay in the first-level cache.
class HostProduct final : public Compute {
 public:
  HostProduct(Device& device, size_t order) : matrices_(device, order, MatrixType::float32) {}

  void enqueue(void* stream) override {
    (void)stream;  // the host works inside the call
    const size_t order = matrices_.order();
    auto first = reinterpret_cast<const float*>(matrices_.first());
    auto second = reinterpret_cast<const float*>(matrices_.second());
    auto product = reinterpret_cast<float*>(matrices_.product());
    std::fill_n(product, order * order, 0.0f);
    for (size_t rows = 0; rows < order; rows += kRows) {
      const size_t row_end = std::min(rows + kRows, order);
      for (size_t inner = 0; inner < order; inner += kInner) {
        const size_t inner_end = std::min(inner + kInner, order);
        for (size_t column = 0; column < order; ++column) {
          float* to = product + column * order;
          for (size_t k = inner; k < inner_end; ++k) {
            const float* from = first + k * order;
            const float factor = second[k + column * order];
            for (size_t row = rows; row < row_end; ++row) to[row] += factor * from[row];
          }
        }
      }
    }
  }

  double work() const override { return product_work(matrices_.order()); }
  std::string implementation() const override { return "blocked loop of the engine"; }
  void poison(void* stream) override { matrices_.poison(stream); }
  ComputeFinding check(void* stream, const std::function<void()>& wait) override {
    return matrices_.check(stream, wait);
  }

 private:
  static constexpr size_t kRows = 256, kInner = 16;  // 16 KiB of the first factor

  TiledMatrices matrices_;
};

MatrixType type_on(const Device& device) {
  const std::string& runtime = device.info().runtime;
  if (runtime == "host") return MatrixType::float32;
  if (runtime == "cuda") return MatrixType::bfloat16;
  throw UnsupportedError("no matrix product is known for " + runtime +
                         " devices: only CUDA devices (cuBLASLt) and the host have one");
}

}  // namespace

size_t product_bytes(const Device& device, size_t order) {
  return TiledMatrices::bytes(order, type_on(device));
}

std::unique_ptr<Compute> make_product(Device& device, size_t order) {
  if (type_on(device) == MatrixType::bfloat16) return make_blas_product(device, order);
  return std::make_unique<HostProduct>(device, order);
}

}  // namespace cclmark
