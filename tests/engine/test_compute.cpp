#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "compute/compute.hpp"
#include "compute/tiled_matrices.hpp"
#include "lazy_device.hpp"
#include "measure/concurrency.hpp"
#include "ranks.hpp"

using namespace cclmark;

namespace {

void no_wait() {}

/// The product of two matrices by its definition, column by column.
std::vector<float> product_of(const float* first, const float* second, size_t order) {
  std::vector<float> product(order * order);
  for (size_t column = 0; column < order; ++column) {
    for (size_t row = 0; row < order; ++row) {
      double sum = 0;
      for (size_t k = 0; k < order; ++k) {
        sum += static_cast<double>(first[row + k * order]) *
               static_cast<double>(second[k + column * order]);
      }
      product[row + column * order] = static_cast<float>(sum);
    }
  }
  return product;
}

/// Fails in the operation with this number.
class FailingCompute final : public Compute {
 public:
  explicit FailingCompute(size_t failing) : failing_(failing) {}
  void enqueue(void*) override {
    if (++done_ == failing_) throw Error("the compute has failed");
  }
  double work() const override { return 1; }
  std::string implementation() const override { return "none"; }
  void poison(void*) override {}
  ComputeFinding check(void*, const std::function<void()>&) override { return {}; }

 private:
  size_t failing_;
  size_t done_ = 0;
};

/// A library without operations; `blocking`: whether its calls return when their work is done.
class WithoutOperations final : public Communicator {
 public:
  explicit WithoutOperations(bool blocking) : blocking_(blocking) {}
  std::unique_ptr<Call> bind(const Operation&, void*) override { throw UnsupportedError("none"); }
  std::string route(const Operation&) const override { return "none"; }
  bool blocking() const override { return blocking_; }

 private:
  bool blocking_;
};

}  // namespace

TEST_CASE("the expected product is the product, whatever the number of rows") {
  auto device = open_host_device(0);
  for (size_t order : {size_t{16}, size_t{61}, size_t{62}, size_t{150}}) {
    CAPTURE(order);
    TiledMatrices matrices(*device, order, MatrixType::float32);
    auto first = reinterpret_cast<const float*>(matrices.first());
    auto second = reinterpret_cast<const float*>(matrices.second());
    std::vector<float> product = product_of(first, second, order);
    const size_t bytes = order * order * sizeof(float);
    std::memcpy(matrices.product(), product.data(), bytes);
    CHECK(matrices.check(nullptr, no_wait).wrong == 0);

    // Exchanged factors are wrong almost everywhere.
    product = product_of(second, first, order);
    std::memcpy(matrices.product(), product.data(), bytes);
    CHECK(matrices.check(nullptr, no_wait).wrong > order * order * 8 / 10);

    // Nothing is right in a poisoned product.
    matrices.poison(nullptr);
    CHECK(matrices.check(nullptr, no_wait).wrong == order * order);
  }
}

TEST_CASE("one wrong element of a product is found with its place and values") {
  auto device = open_host_device(0);
  constexpr size_t kOrder = 70, kWrong = 69 + 65 * kOrder;
  auto compute = make_product(*device, kOrder);
  compute->enqueue(nullptr);
  CHECK(compute->check(nullptr, no_wait).wrong == 0);
  CHECK(compute->work() == 2.0 * 70 * 70 * 70);

  TiledMatrices matrices(*device, kOrder, MatrixType::float32);
  auto first = reinterpret_cast<const float*>(matrices.first());
  auto second = reinterpret_cast<const float*>(matrices.second());
  std::vector<float> product = product_of(first, second, kOrder);
  product[kWrong] += 1;
  std::memcpy(matrices.product(), product.data(), product.size() * sizeof(float));
  ComputeFinding finding = matrices.check(nullptr, no_wait);
  CHECK(finding.wrong == 1);
  CHECK(finding.first_element == kWrong);
  CHECK(finding.actual == finding.expected + 1);
}

TEST_CASE("a product whose block is in the place of another block is wrong there") {
  auto device = open_host_device(0);
  constexpr size_t kOrder = 192, kBlock = 64;
  TiledMatrices matrices(*device, kOrder, MatrixType::float32);
  auto first = reinterpret_cast<const float*>(matrices.first());
  auto second = reinterpret_cast<const float*>(matrices.second());
  std::vector<float> product = product_of(first, second, kOrder);
  for (size_t column = 0; column < kBlock; ++column) {
    std::memcpy(&product[column * kOrder], &product[column * kOrder + kBlock],
                kBlock * sizeof(float));
  }
  std::memcpy(matrices.product(), product.data(), product.size() * sizeof(float));
  CHECK(matrices.check(nullptr, no_wait).wrong > kBlock * kBlock * 8 / 10);
}

TEST_CASE("bfloat16 elements have the upper halves of the same numbers, rounded") {
  auto device = open_host_device(0);
  constexpr size_t kOrder = 150;
  TiledMatrices exact(*device, kOrder, MatrixType::float32);
  TiledMatrices halves(*device, kOrder, MatrixType::bfloat16);
  CHECK(TiledMatrices::bytes(kOrder, MatrixType::bfloat16) == 3 * 2 * kOrder * kOrder);
  auto as_float = [](uint16_t half) {
    uint32_t bits = static_cast<uint32_t>(half) << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  };
  auto whole = reinterpret_cast<const float*>(exact.first());
  auto half = reinterpret_cast<const uint16_t*>(halves.first());
  for (size_t i = 0; i < kOrder * kOrder; ++i) REQUIRE(as_float(half[i]) == whole[i]);
  // Rounded to the nearest value with 8 significant bits, to even if there are two.
  std::vector<float> product =
      product_of(whole, reinterpret_cast<const float*>(exact.second()), kOrder);
  auto to = reinterpret_cast<uint16_t*>(halves.product());
  for (size_t i = 0; i < product.size(); ++i) {
    uint16_t low = 0;
    uint32_t bits = 0;
    std::memcpy(&bits, &product[i], sizeof(bits));
    low = static_cast<uint16_t>(bits >> 16);
    auto high = static_cast<uint16_t>(low + 1);
    float below = std::abs(product[i] - as_float(low)),
          above = std::abs(as_float(high) - product[i]);
    to[i] = below < above || (below == above && low % 2 == 0) ? low : high;
  }
  CHECK(halves.check(nullptr, no_wait).wrong == 0);
}

TEST_CASE("a triad is checked in full") {
  auto device = open_host_device(0);
  auto triad = make_triad(*device, 1 << 16);
  CHECK(triad->check(nullptr, no_wait).wrong == (1 << 16) / 4);
  triad->enqueue(nullptr);
  CHECK(triad->check(nullptr, no_wait).wrong == 0);
  CHECK(triad->work() == 3 * (1 << 16));
  triad->poison(nullptr);
  CHECK(triad->check(nullptr, no_wait).wrong == (1 << 16) / 4);
}

TEST_CASE("both kinds of work run as often as requested, with an event after each span") {
  run_ranks(2, [](RankGroup& rank_group) {
    auto device = open_host_device(rank_group.rank());
    WithoutOperations library(true);
    auto triad = make_triad(*device, 1 << 12);
    Concurrency concurrency(*device, rank_group, library, nullptr);
    size_t issued = 0;
    auto issue = [&] { ++issued; };
    StreamTimes times = concurrency.run({5, 3}, issue, {4, 2}, triad.get());
    CHECK(issued == 15);
    CHECK(times.communication_s.size() == 6);
    CHECK(times.compute_s.size() == 5);
    CHECK(std::ranges::is_sorted(times.communication_s));
    CHECK(std::ranges::is_sorted(times.compute_s));
    CHECK(times.enqueue_s <= times.host_s);
    CHECK(concurrency.check(*triad).wrong == 0);
    concurrency.poison(*triad);
    CHECK(concurrency.check(*triad).wrong > 0);

    times = concurrency.run({0, 1}, issue, {2, 1}, triad.get());
    CHECK(issued == 15);
    CHECK(times.communication_s.empty());
    CHECK(times.compute_s.size() == 3);
    times = concurrency.run({2, 1}, issue, {0, 1}, triad.get());
    CHECK(issued == 17);
    CHECK(times.compute_s.empty());
  });
}

TEST_CASE("an error of either kind of work is raised, and the thread is joined") {
  run_ranks(1, [](RankGroup& rank_group) {
    auto device = open_host_device(0);
    WithoutOperations library(true);
    Concurrency concurrency(*device, rank_group, library, nullptr);
    FailingCompute failing(3);
    CHECK_THROWS_WITH_AS(
        concurrency.run({1, 1}, [] {}, {4, 1}, &failing), "the compute has failed", Error);
    FailingCompute lasting(0);
    auto refuse = [] { throw Error("the collective has failed"); };
    CHECK_THROWS_WITH_AS(concurrency.run({1, 1}, refuse, {1000, 1000}, &lasting),
                         "the collective has failed", Error);
  });
}

TEST_CASE("work of a device is not timed beside calls that return when their work is done") {
  run_ranks(1, [](RankGroup& rank_group) {
    LazyDevice device(0, 1, -1);
    WithoutOperations blocking(true);
    Stream stream(device);
    Concurrency concurrency(device, rank_group, blocking, stream.get());
    FailingCompute compute(0);
    CHECK_THROWS_AS(concurrency.run({1, 1}, [] {}, {1, 1}, &compute), UnsupportedError);
  });
}
