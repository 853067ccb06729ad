#include "compute/tiled_matrices.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace cclmark {
namespace {

#include "kernels/dialect.cu"
// before all of them
#include "kernels/compute.cu"

constexpr int kLargest = 4;  // of the numbers in the factors, either sign

/// The upper half of a float32, rounded to the nearest, to even if there are two.
uint16_t bfloat16_of(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float float_of(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

}  // namespace

TiledMatrices::TiledMatrices(Device& device, size_t order, MatrixType type)
    : device_(device),
      order_(order),
      type_(type),
      first_numbers_(numbers(1)),
      second_numbers_(numbers(2)),
      product_numbers_(expected()),
      first_tile_(upload(first_numbers_)),
      second_tile_(upload(second_numbers_)),
      product_tile_(upload(product_numbers_)),
      first_(device, order * order * element_bytes(type)),
      second_(device, order * order * element_bytes(type)),
      product_(device, order * order * element_bytes(type)),
      mismatches_(device) {
  Stream stream(device);
  fill(first_.data(), first_tile_, stream.get());
  fill(second_.data(), second_tile_, stream.get());
  poison(stream.get());
  wait_until_idle(device, stream.get());
}

/// The numbers of a tile, column by column.
std::vector<float> TiledMatrices::numbers(unsigned seed) const {
  std::vector<float> tile(kPeriod * kPeriod);
  uint32_t state = 0x9e3779b9u * seed;
  for (float& number : tile) {
    state = state * 1664525u + 1013904223u;
    number = static_cast<float>(static_cast<int>((state >> 16) % (2 * kLargest + 1)) - kLargest);
  }
  return tile;
}

/// The tile of the product: the sum over all of `order` columns of the first factor.
std::vector<float> TiledMatrices::expected() const {
  std::vector<float> tile(kPeriod * kPeriod);
  for (size_t column = 0; column < kPeriod; ++column) {
    for (size_t row = 0; row < kPeriod; ++row) {
      int64_t sum = 0;
      for (size_t k = 0; k < kPeriod; ++k) {
        // The number of times that this column of the tile occurs in the matrix.
        auto times = static_cast<int64_t>((order_ + kPeriod - 1 - k) / kPeriod);
        sum += times * static_cast<int64_t>(first_numbers_[row + k * kPeriod]) *
               static_cast<int64_t>(second_numbers_[k + column * kPeriod]);
      }
      tile[row + column * kPeriod] = static_cast<float>(sum);
    }
  }
  return tile;
}

Buffer TiledMatrices::upload(const std::vector<float>& tile) const {
  Buffer buffer(device_, tile.size() * element_bytes(type_));
  if (type_ == MatrixType::float32) {
    device_.copy_from_host(buffer.data(), tile.data(), buffer.size_bytes());
    return buffer;
  }
  std::vector<uint16_t> halves(tile.size());
  std::ranges::transform(tile, halves.begin(), bfloat16_of);
  device_.copy_from_host(buffer.data(), halves.data(), buffer.size_bytes());
  return buffer;
}

void TiledMatrices::fill(std::byte* matrix, const Buffer& tile, void* stream) {
  launch(device_.kernel("cclmark_tile"), matrix, tile, stream);
}

void TiledMatrices::launch(const Kernel& kernel, std::byte* matrix, const Buffer& tile,
                           void* stream) {
  TiledArguments arguments{};
  arguments.matrix = reinterpret_cast<unsigned char*>(matrix);
  arguments.tile = reinterpret_cast<const unsigned char*>(tile.data());
  arguments.order = order_;
  arguments.period = kPeriod;
  arguments.element_bytes = static_cast<unsigned>(element_bytes(type_));
  arguments.wrong_count = mismatches_.count();
  arguments.first_wrong = mismatches_.first();
  device_.launch(kernel, &arguments, order_ * order_, stream);
}

void TiledMatrices::poison(void* stream) {
  device_.fill_bytes(product_.data(), 0xff, product_.size_bytes(), stream);
}

ComputeFinding TiledMatrices::check(void* stream, const std::function<void()>& wait) {
  mismatches_.reset(stream);
  launch(device_.kernel("cclmark_check_tiles"), product_.data(), product_tile_, stream);
  wait();
  Mismatches::Values values = mismatches_.read();
  ComputeFinding finding{.wrong = values.wrong};
  if (finding.wrong == 0) return finding;
  finding.first_element = values.first;
  const size_t row = values.first % order_, column = values.first / order_;
  finding.expected = element(product_tile_.data(), row % kPeriod + column % kPeriod * kPeriod);
  finding.actual = element(product_.data(), values.first);
  return finding;
}

double TiledMatrices::element(const std::byte* matrix, size_t index) const {
  if (type_ == MatrixType::float32) {
    float value = 0;
    device_.copy_to_host(&value, matrix + index * sizeof(value), sizeof(value));
    return static_cast<double>(value);
  }
  uint16_t bits = 0;
  device_.copy_to_host(&bits, matrix + index * sizeof(bits), sizeof(bits));
  return static_cast<double>(float_of(bits));
}

}  // namespace cclmark
