#include "nccl/reduce.hpp"

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "nccl/number.hpp"

namespace fake_nccl {
namespace {

/// How elements of a kind are stored, and what they are reduced as.
template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value load(Stored stored) { return stored; }
  static Stored store(Value value) { return value; }
};

template <typename Bits, const SmallFormat& (*format)()>
struct Small {
  using Stored = Bits;
  using Value = float;
  static Value load(Stored stored) { return format().decode(stored); }
  static Stored store(Value value) { return static_cast<Stored>(format().encode(value)); }
};

// Objects, not functions: `fold` would receive a pointer and make a call for every element.

/// Integers wrap round, as they do on the device.
constexpr auto add = []<typename T>(T x, T y) -> T {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
  } else {
    return x + y;
  }
};

constexpr auto multiply = []<typename T>(T x, T y) -> T {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
  } else {
    return x * y;
  }
};

/// A NaN loses against a number.
constexpr auto larger = []<typename T>(T x, T y) -> T {
  if constexpr (std::is_integral_v<T>) {
    return x > y ? x : y;
  } else {
    return std::fmax(x, y);
  }
};

constexpr auto smaller = []<typename T>(T x, T y) -> T {
  if constexpr (std::is_integral_v<T>) {
    return x < y ? x : y;
  } else {
    return std::fmin(x, y);
  }
};

template <typename Kind, typename Prepare, typename Combine>
void fold(std::span<const std::byte* const> sources, std::byte* result, size_t count,
          Prepare prepare, Combine combine) {
  using Stored = typename Kind::Stored;
  auto to = reinterpret_cast<Stored*>(result);
  auto first = reinterpret_cast<const Stored*>(sources[0]);
  for (size_t i = 0; i < count; ++i) to[i] = prepare(first[i]);
  for (const std::byte* source : sources.subspan(1)) {
    auto from = reinterpret_cast<const Stored*>(source);
    for (size_t i = 0; i < count; ++i) {
      to[i] = Kind::store(combine(Kind::load(to[i]), Kind::load(prepare(from[i]))));
    }
  }
}

/// Floats are scaled by 1/n, rounded to the dtype, before they are added; integers are added, then
/// divided, truncating.
template <typename Kind>
void average(std::span<const std::byte* const> sources, std::byte* result, size_t count) {
  using Stored = typename Kind::Stored;
  using Value = typename Kind::Value;
  auto ranks = static_cast<Value>(sources.size());
  if constexpr (std::is_integral_v<Value>) {
    fold<Kind>(sources, result, count, [](Stored x) { return x; }, add);
    auto to = reinterpret_cast<Stored*>(result);
    for (size_t i = 0; i < count; ++i) to[i] = static_cast<Stored>(to[i] / ranks);
  } else {
    Value scale = Kind::load(Kind::store(Value(1) / ranks));
    fold<Kind>(
        sources, result, count, [=](Stored x) { return Kind::store(Kind::load(x) * scale); }, add);
  }
}

template <typename Kind>
void reduce_kind(Reduction reduction, std::span<const std::byte* const> sources, std::byte* result,
                 size_t count) {
  using Stored = typename Kind::Stored;
  auto as_is = [](Stored x) { return x; };
  switch (reduction) {
    case Reduction::sum:
      return fold<Kind>(sources, result, count, as_is, add);
    case Reduction::prod:
      return fold<Kind>(sources, result, count, as_is, multiply);
    case Reduction::max:
      return fold<Kind>(sources, result, count, as_is, larger);
    case Reduction::min:
      return fold<Kind>(sources, result, count, as_is, smaller);
    case Reduction::avg:
      return average<Kind>(sources, result, count);
  }
}

}  // namespace

void reduce_elements(Dtype dtype, Reduction reduction, std::span<const std::byte* const> sources,
                     std::byte* result, size_t count) {
  switch (dtype) {
    case Dtype::int8:
      return reduce_kind<Plain<int8_t>>(reduction, sources, result, count);
    case Dtype::uint8:
      return reduce_kind<Plain<uint8_t>>(reduction, sources, result, count);
    case Dtype::int16:
      return reduce_kind<Plain<int16_t>>(reduction, sources, result, count);
    case Dtype::uint16:
      return reduce_kind<Plain<uint16_t>>(reduction, sources, result, count);
    case Dtype::int32:
      return reduce_kind<Plain<int32_t>>(reduction, sources, result, count);
    case Dtype::uint32:
      return reduce_kind<Plain<uint32_t>>(reduction, sources, result, count);
    case Dtype::int64:
      return reduce_kind<Plain<int64_t>>(reduction, sources, result, count);
    case Dtype::uint64:
      return reduce_kind<Plain<uint64_t>>(reduction, sources, result, count);
    case Dtype::float16:
      return reduce_kind<Small<uint16_t, half_format>>(reduction, sources, result, count);
    case Dtype::float32:
      return reduce_kind<Plain<float>>(reduction, sources, result, count);
    case Dtype::float64:
      return reduce_kind<Plain<double>>(reduction, sources, result, count);
    case Dtype::bfloat16:
      return reduce_kind<Small<uint16_t, bfloat16_format>>(reduction, sources, result, count);
    case Dtype::fp8e4m3:
      return reduce_kind<Small<uint8_t, fp8e4m3_format>>(reduction, sources, result, count);
    case Dtype::fp8e5m2:
      return reduce_kind<Small<uint8_t, fp8e5m2_format>>(reduction, sources, result, count);
  }
}

}  // namespace fake_nccl
