#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "measure/checker.hpp"

using namespace cclmark;

namespace {

/// A checker of the host, and a buffer that holds what rank 0 puts in.
struct Fixture {
  std::unique_ptr<Device> device = open_host_device(0);
  Stream stream{*device};
  Checker checker{*device, stream.get(), 0, 2};
  Operation op;
  std::vector<std::byte> data;

  Fixture(Dtype dtype, size_t elements) {
    op.collective = Collective::all_gather;
    op.dtype = dtype;
    op.count = elements;
    checker.choose(op, 5);
    data.resize(elements * size_bytes(dtype) + 64);
  }

  Checker::Count check(std::byte* output, size_t elements, size_t source_element = 0) {
    checker.begin();
    checker.check(output, Segment{0, elements, 0, source_element});
    return checker.result();
  }
};

}  // namespace

TEST_CASE("what was filled checks, aligned or not, for every size of element") {
  for (Dtype dtype : {Dtype::int8, Dtype::float16, Dtype::float32, Dtype::float64}) {
    size_t width = size_bytes(dtype);
    for (size_t elements : {size_t{1}, size_t{3}, size_t{17}, size_t{1023}, size_t{70001}}) {
      for (size_t offset : {size_t{0}, size_t{1}, size_t{5}}) {
        Fixture f(dtype, elements + offset);
        std::byte* output = f.data.data() + offset * width;
        f.checker.fill_input(output, elements * width);
        CAPTURE(width);
        CAPTURE(elements);
        CAPTURE(offset);
        CHECK(f.check(output, elements).wrong == 0);
      }
    }
  }
}

TEST_CASE("one flipped bit anywhere is found, and where it is") {
  constexpr size_t kElements = 5000;
  for (Dtype dtype : {Dtype::int8, Dtype::bfloat16, Dtype::float32, Dtype::int64}) {
    Fixture f(dtype, kElements);
    size_t width = size_bytes(dtype);
    f.checker.fill_input(f.data.data(), kElements * width);
    for (size_t byte = 0; byte < kElements * width; byte += 97) {
      f.data[byte] ^= std::byte{0x10};
      Checker::Count count = f.check(f.data.data(), kElements);
      f.data[byte] ^= std::byte{0x10};
      CAPTURE(byte);
      REQUIRE(count.wrong == 1);
      REQUIRE(count.first_element == byte / width);
    }
  }
}

TEST_CASE("every wrong element is counted once") {
  Fixture f(Dtype::bfloat16, 4099);
  f.checker.fill_input(f.data.data(), 4099 * 2);
  for (size_t element = 7; element < 4099; element += 2) {
    f.data[element * 2] ^= std::byte{1};
    f.data[element * 2 + 1] ^= std::byte{1};
  }
  Checker::Count count = f.check(f.data.data(), 4099);
  CHECK(count.wrong == 2046);
  CHECK(count.first_element == 7);
}

TEST_CASE("data in the wrong place is found") {
  constexpr size_t kElements = 1 << 16;
  Fixture f(Dtype::float32, 2 * kElements);
  f.data.resize(2 * kElements * 4);
  f.checker.fill_input(f.data.data(), 2 * kElements * 4);
  for (size_t shift : {size_t{1}, size_t{4}, size_t{1024}, size_t{4096}, kElements}) {
    CAPTURE(shift);
    Checker::Count count = f.check(f.data.data() + shift * 4, kElements - 1, 0);
    CHECK(count.wrong > kElements / 2);
    CHECK(f.check(f.data.data() + shift * 4, kElements - 1, shift).wrong == 0);
  }
}

TEST_CASE("the expected value of an element is the one that was filled in") {
  Fixture f(Dtype::int32, 3000);
  f.checker.fill_input(f.data.data(), 3000 * 4);
  for (size_t element : {size_t{0}, size_t{1023}, size_t{1024}, size_t{2999}}) {
    uint32_t filled;
    std::memcpy(&filled, f.data.data() + element * 4, 4);
    CHECK(f.checker.expected_bits(Segment{0, 3000, 0, 0}, element) == filled);
  }
}
