#include "collective/pattern.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "collective/table.hpp"
#include "core/number.hpp"

namespace cclmark {
namespace {

#include "kernels/dialect.cu"
#include "kernels/pattern.cu"

/// A number that looks random and depends on everything given (the finaliser of SplitMix64).
uint64_t mix(uint64_t seed, uint64_t rank, uint64_t slot, uint64_t purpose = 0) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + rank * 0xbf58476d1ce4e5b9u +
               slot * 0x94d049bb133111ebu + purpose * 0xd6e8feb86659fd93u + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// -limit..limit
int64_t signed_within(uint64_t random, int64_t limit) {
  return static_cast<int64_t>(random % (2 * static_cast<uint64_t>(limit) + 1)) - limit;
}

struct Place {
  int ranks;
  uint32_t seed;
  size_t slot;

  uint64_t random(int rank, uint64_t purpose = 0) const {
    return mix(seed, static_cast<uint64_t>(rank), slot, purpose);
  }
  /// One rank per slot, a different one from slot to slot.
  int chosen_rank() const { return static_cast<int>(slot % static_cast<size_t>(ranks)); }
};

// Integers are computed modulo 2^bits, so sums and products are exact in any order.

/// The intended average of the slot, for which all partial results stay in range.
template <typename T>
int64_t average_of_slot(const Place& at) {
  uint64_t limit =
      static_cast<uint64_t>(std::numeric_limits<T>::max()) / static_cast<uint64_t>(at.ranks);
  limit = std::min<uint64_t>(limit, 1u << 20);
  int64_t drawn = static_cast<int64_t>(at.random(-1) % (limit + 1));
  return std::is_signed_v<T> && at.random(-2) % 2 == 0 ? -drawn : drawn;
}

template <typename T>
T integer_input(Reduction reduction, const Place& at, int rank) {
  uint64_t random = at.random(rank);
  switch (reduction) {
    case Reduction::prod:
      return static_cast<T>(random | 1);  // an even factor would soon make every product zero
    case Reduction::avg: {
      // Pairs of ranks deviate from the average in opposite directions.
      int64_t average = average_of_slot<T>(at);
      bool paired = rank / 2 * 2 + 1 < at.ranks;
      int64_t magnitude = average < 0 ? -average : average;
      // With more ranks than the type has values the average is 0; the deviations still show.
      if (average == 0 && std::is_signed_v<T>) magnitude = std::numeric_limits<int8_t>::max();
      auto deviation =
          static_cast<int64_t>(at.random(rank / 2, 1) % (static_cast<uint64_t>(magnitude) + 1));
      if (!paired) return static_cast<T>(average);
      return static_cast<T>(rank % 2 == 0 ? average + deviation : average - deviation);
    }
    case Reduction::sum: {
      // MPI leaves open what becomes of a sum that leaves the type's range, and Open MPI's vector
      // code saturates those of 8 and 16 bits: they stay within it, as long as there is room for
      // ranks.
      int64_t limit = std::numeric_limits<T>::max() / at.ranks;
      if (sizeof(T) > 2 || limit == 0) return static_cast<T>(random);
      return static_cast<T>(std::is_signed_v<T> ? signed_within(random, limit)
                                                : random % (static_cast<uint64_t>(limit) + 1));
    }
    default:
      return static_cast<T>(random);
  }
}

template <typename T>
T integer_reduced(Reduction reduction, const Place& at) {
  using U = std::make_unsigned_t<T>;
  if (reduction == Reduction::avg) return static_cast<T>(average_of_slot<T>(at));
  T result = integer_input<T>(reduction, at, 0);
  for (int rank = 1; rank < at.ranks; ++rank) {
    T value = integer_input<T>(reduction, at, rank);
    switch (reduction) {
      case Reduction::sum:
        result = static_cast<T>(static_cast<U>(result) + static_cast<U>(value));
        break;
      case Reduction::prod:
        // Widened, because small unsigned types would be promoted to int and overflow.
        result = static_cast<T>(static_cast<uint64_t>(result) * static_cast<uint64_t>(value));
        break;
      case Reduction::max:
        result = std::max(result, value);
        break;
      default:
        result = std::min(result, value);
    }
  }
  return result;
}

// Floats are given values for which every partial result is exact.

constexpr bool is_power_of_two(int n) {
  return (n & (n - 1)) == 0;
}

/// Whether 1/ranks is so small that the type holds it with fewer bits than other numbers.
bool reciprocal_is_coarse(const DtypeInfo& type, int ranks) {
  double smallest_normal = std::ldexp(1.0, 2 - (1 << (type.exponent_bits - 1)));
  double limit =
      is_power_of_two(ranks) ? std::ldexp(smallest_normal, -type.mantissa_bits) : smallest_normal;
  return 1.0 / ranks < limit;
}

/// Libraries multiply by 1/ranks before they add, or divide afterwards: both must give equal
/// values.
double averaged_input(const DtypeInfo& type, const Place& at, int rank) {
  uint64_t random = at.random(rank);
  double magnitude = static_cast<double>(1 << (at.random(-1) % 4));
  if (reciprocal_is_coarse(type, at.ranks)) {
    // Two ranks cancel each other, however much was lost of both.
    int turn = (rank - at.chosen_rank() + at.ranks) % at.ranks;
    return turn == 0 ? magnitude : turn == 1 ? -magnitude : 0.0;
  }
  // One rank alone contributes, and a power of two: it rounds alike first and last.
  return rank == at.chosen_rank() ? (random >> 63 ? -magnitude : magnitude) : 0.0;
}

double float_input(Reduction reduction, const DtypeInfo& type, const Place& at, int rank) {
  uint64_t random = at.random(rank);
  int mantissa_bits = type.mantissa_bits;
  int64_t exact = int64_t{1} << (mantissa_bits + 1);  // integers up to here are exact
  double sign = random >> 63 ? -1.0 : 1.0;
  switch (reduction) {
    case Reduction::sum:
    case Reduction::avg: {
      // Dividing by a power of two rounds nothing, unless it leaves the range of the type.
      bool rounds = !is_power_of_two(at.ranks) || reciprocal_is_coarse(type, at.ranks);
      if (reduction == Reduction::avg && rounds) return averaged_input(type, at, rank);
      int64_t limit = exact / at.ranks;
      if (limit > 0) return static_cast<double>(signed_within(random, limit));
      // More ranks than exact integers: only so many of them contribute to a slot.
      auto turn = (static_cast<int64_t>(at.slot) + rank) % at.ranks;
      return turn < exact ? sign : 0.0;
    }
    case Reduction::prod: {
      // One rank brings a full significand, its neighbours factors of two and a half.
      int turn = (rank - at.chosen_rank() + at.ranks) % at.ranks;
      if (turn == 1) return sign * 2.0;
      if (turn == 2) return sign * 0.5;
      if (turn != 0) return sign;
      uint64_t fraction = random & ((uint64_t{1} << mantissa_bits) - 1);
      return sign * (1.0 + std::ldexp(static_cast<double>(fraction), -mantissa_bits));
    }
    default:
      return sign * static_cast<double>(1 + random % static_cast<uint64_t>(exact));
  }
}

double float_reduced(Reduction reduction, const DtypeInfo& type, const Place& at) {
  double result = float_input(reduction, type, at, 0);
  for (int rank = 1; rank < at.ranks; ++rank) {
    double value = float_input(reduction, type, at, rank);
    switch (reduction) {
      case Reduction::sum:
      case Reduction::avg:
        result += value;
        break;
      case Reduction::prod:
        result *= value;
        break;
      case Reduction::max:
        result = std::max(result, value);
        break;
      case Reduction::min:
        result = std::min(result, value);
    }
  }
  return reduction == Reduction::avg ? result / at.ranks : result;
}

/// Any bits, except those that a float reads as infinity or NaN.
template <typename T>
T copied_input(const Place& at, int rank, bool is_float, int mantissa_bits) {
  auto bits = static_cast<T>(at.random(rank));
  return is_float ? static_cast<T>(bits & static_cast<T>(~(T{1} << mantissa_bits))) : bits;
}

template <typename T>
T float_bits(double value) {
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<T>(value);
  } else {
    return std::bit_cast<T>(static_cast<float>(value));
  }
}

uint16_t small_bits(Dtype dtype, double value) {
  auto narrow = static_cast<float>(value);
  switch (dtype) {
    case Dtype::float16:
      return Half(narrow).bits;
    case Dtype::bfloat16:
      return Bfloat16(narrow).bits;
    case Dtype::fp8e4m3:
      return Fp8e4m3(narrow).bits;
    default:
      return Fp8e5m2(narrow).bits;
  }
}

/// The value of one slot of a rank's table, or of the reduced one (rank kReduced), as bits.
uint64_t slot_bits(const Operation& op, int rank, const Place& at) {
  const DtypeInfo& type = info(op.dtype);
  bool reduced = rank == Segment::kReduced;
  if (!info(op.collective).reduces) {
    switch (type.size_bytes) {
      case 1:
        return copied_input<uint8_t>(at, rank, type.is_float, type.mantissa_bits);
      case 2:
        return copied_input<uint16_t>(at, rank, type.is_float, type.mantissa_bits);
      case 4:
        return copied_input<uint32_t>(at, rank, type.is_float, type.mantissa_bits);
      default:
        return copied_input<uint64_t>(at, rank, type.is_float, type.mantissa_bits);
    }
  }
  if (type.is_float) {
    double value =
        reduced ? float_reduced(op.reduction, type, at) : float_input(op.reduction, type, at, rank);
    if (op.dtype == Dtype::float64) return float_bits<uint64_t>(value);
    if (op.dtype == Dtype::float32) return float_bits<uint32_t>(value);
    return small_bits(op.dtype, value);
  }
  auto integer = [&]<typename T>(T) -> uint64_t {
    T value =
        reduced ? integer_reduced<T>(op.reduction, at) : integer_input<T>(op.reduction, at, rank);
    return static_cast<uint64_t>(value);
  };
  switch (op.dtype) {
    case Dtype::int8:
      return integer(int8_t{});
    case Dtype::uint8:
      return integer(uint8_t{});
    case Dtype::int16:
      return integer(int16_t{});
    case Dtype::uint16:
      return integer(uint16_t{});
    case Dtype::int32:
      return integer(int32_t{});
    case Dtype::uint32:
      return integer(uint32_t{});
    case Dtype::int64:
      return integer(int64_t{});
    default:
      return integer(uint64_t{});
  }
}

Table make_table(const Operation& op, int rank, int ranks, uint32_t seed) {
  Table table;
  size_t width = size_bytes(op.dtype);
  for (size_t slot = 0; slot < kTableBytes / width; ++slot) {
    uint64_t bits = slot_bits(op, rank, Place{ranks, seed, slot});
    std::memcpy(table.data() + slot * width, &bits, width);  // little-endian, as all targets are
  }
  return table;
}

}  // namespace

Table input_table(const Operation& operation, int rank, int ranks, uint32_t seed) {
  return make_table(operation, rank, ranks, seed);
}

Table reduced_table(const Operation& operation, int ranks, uint32_t seed) {
  return make_table(operation, Segment::kReduced, ranks, seed);
}

std::array<std::byte, 8> pattern_element(const Table& table, Dtype dtype, size_t element,
                                         uint32_t seed) {
  std::array<std::byte, 8> bytes{};
  size_t width = size_bytes(dtype);
  for (size_t k = 0; k < width; ++k) {
    bytes[k] = table[pattern_offset(element * width + k, seed)];
  }
  return bytes;
}

}  // namespace cclmark
