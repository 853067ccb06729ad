#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "collective/pattern.hpp"
#include "core/number.hpp"
#include "sanitizers.hpp"

using namespace cclmark;

namespace {

constexpr uint32_t kSeed = 11;

template <typename T>
T combine(Reduction reduction, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    if (reduction == Reduction::prod) {
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    }
    if (reduction == Reduction::sum || reduction == Reduction::avg) {
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    }
    return reduction == Reduction::max ? std::max(a, b) : std::min(a, b);
  } else {
    // One step at a time in the type itself, so that any rounding on the way shows.
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    auto x = static_cast<Wide>(a), y = static_cast<Wide>(b);
    if (reduction == Reduction::prod) return T(x * y);
    if (reduction == Reduction::max) return T(std::max(x, y));
    if (reduction == Reduction::min) return T(std::min(x, y));
    return T(x + y);
  }
}

template <typename T>
T divide(T value, int ranks) {
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>) {
      return static_cast<T>(static_cast<int64_t>(value) / ranks);
    } else {
      return static_cast<T>(static_cast<uint64_t>(value) / static_cast<uint64_t>(ranks));
    }
  } else {
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    return T(static_cast<Wide>(value) / static_cast<Wide>(ranks));
  }
}

/// NCCL multiplies floats by 1/ranks, rounded to the type, before it adds them up.
template <typename T>
T scale(T value, int ranks) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  T factor(Wide(1) / static_cast<Wide>(ranks));
  return T(static_cast<Wide>(value) * static_cast<Wide>(factor));
}

template <typename T>
T element(const Table& table, size_t slot) {
  T value;
  std::memcpy(&value, table.data() + slot * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
bool same(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

/// Combines the ranks' inputs in several orders and holds every result against the expected table.
template <typename T>
void check(Dtype dtype, Reduction reduction, int ranks) {
  Operation op;
  op.dtype = dtype;
  op.reduction = reduction;
  std::vector<Table> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(input_table(op, rank, ranks, kSeed));
  Table expected = reduced_table(op, ranks, kSeed);
  std::vector<int> order(static_cast<size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(3);
  for (int round = 0; round < (ranks > 16 ? 2 : 3); ++round) {
    // One assertion a table: millions of them cost more than what they look at.
    const size_t slots = kTableBytes / sizeof(T);
    size_t right = 0;
    for (; right < slots; ++right) {
      auto input = [&](int rank) { return element<T>(inputs[static_cast<size_t>(rank)], right); };
      T after = input(order[0]);
      for (size_t i = 1; i < order.size(); ++i) {
        after = combine(reduction, after, input(order[i]));
      }
      T wanted = element<T>(expected, right);
      if (reduction != Reduction::avg) {
        if (!same(after, wanted)) break;
      } else {
        if (!same(divide(after, ranks), wanted)) break;
        if constexpr (!std::is_integral_v<T>) {
          T before = scale(input(order[0]), ranks);
          for (size_t i = 1; i < order.size(); ++i) {
            before = combine(reduction, before, scale(input(order[i]), ranks));
          }
          if (!same(before, wanted)) break;
        }
      }
    }
    CAPTURE(name(dtype));
    CAPTURE(name(reduction));
    CAPTURE(ranks);
    REQUIRE(right == slots);
    std::shuffle(order.begin(), order.end(), random);
  }
}

void check_dtype(Dtype dtype, Reduction reduction, int ranks) {
  switch (dtype) {
    case Dtype::int8:
      return check<int8_t>(dtype, reduction, ranks);
    case Dtype::uint8:
      return check<uint8_t>(dtype, reduction, ranks);
    case Dtype::int16:
      return check<int16_t>(dtype, reduction, ranks);
    case Dtype::uint16:
      return check<uint16_t>(dtype, reduction, ranks);
    case Dtype::int32:
      return check<int32_t>(dtype, reduction, ranks);
    case Dtype::uint32:
      return check<uint32_t>(dtype, reduction, ranks);
    case Dtype::int64:
      return check<int64_t>(dtype, reduction, ranks);
    case Dtype::uint64:
      return check<uint64_t>(dtype, reduction, ranks);
    case Dtype::float16:
      return check<Half>(dtype, reduction, ranks);
    case Dtype::float32:
      return check<float>(dtype, reduction, ranks);
    case Dtype::float64:
      return check<double>(dtype, reduction, ranks);
    case Dtype::bfloat16:
      return check<Bfloat16>(dtype, reduction, ranks);
    case Dtype::fp8e4m3:
      return check<Fp8e4m3>(dtype, reduction, ranks);
    case Dtype::fp8e5m2:
      return check<Fp8e5m2>(dtype, reduction, ranks);
  }
}

}  // namespace

// Sanitizers see nothing with 1024 ranks that they do not see with 16, and take minutes for it.
const int kMostRanks = kWatched ? 16 : 1024;

TEST_CASE("every reduction of the inputs is exact, in any order, for every type" *
          doctest::skip(kThreadsWatched)) {  // it has one thread
  for (int ranks : {1, 2, 3, 4, 5, 7, 8, 16, 33, 1024}) {
    if (ranks > kMostRanks) {
      break;
    }
    for (size_t dtype = 0; dtype < kDtypes.size(); ++dtype) {
      for (size_t reduction = 0; reduction < kReductions.size(); ++reduction) {
        check_dtype(static_cast<Dtype>(dtype), static_cast<Reduction>(reduction), ranks);
      }
    }
  }
}

TEST_CASE("inputs differ between ranks, so that a missing or doubled rank shows") {
  for (size_t dtype = 0; dtype < kDtypes.size(); ++dtype) {
    for (size_t reduction = 0; reduction < kReductions.size(); ++reduction) {
      Operation op;
      op.dtype = static_cast<Dtype>(dtype);
      op.reduction = static_cast<Reduction>(reduction);
      CAPTURE(name(op.dtype));
      CAPTURE(name(op.reduction));
      CHECK(input_table(op, 0, 4, kSeed) != input_table(op, 3, 4, kSeed));
      CHECK(input_table(op, 0, 4, kSeed) != reduced_table(op, 4, kSeed));
    }
  }
}

TEST_CASE("copied inputs are no NaN and depend on the seed") {
  Operation op;
  op.collective = Collective::all_gather;
  Table table = input_table(op, 0, 2, 1);
  for (size_t slot = 0; slot < kTableBytes / sizeof(float); ++slot) {
    CHECK(element<float>(table, slot) == element<float>(table, slot));
  }
  CHECK(table != input_table(op, 0, 2, 2));
}
