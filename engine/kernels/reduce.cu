// Reduces two vectors into one, for groups of ranks that no single library joins.
//
// Written in the dialect of dialect.cu, which comes before it wherever it is compiled.

/// `dtype` and `reduction` are numbered as core/dtype.hpp has them, without avg: that is a sum
/// whose last step has a `divisor` above 1. `out` may be `a`.
struct ReduceArguments {
  unsigned char* out;
  const unsigned char* a;
  const unsigned char* b;
  unsigned long long count;
  int dtype;
  int reduction;
  unsigned divisor;
};

union FloatBits {
  float value;
  unsigned bits;
};

CCLMARK_DEVICE float float_of(unsigned bits) {
  FloatBits both;
  both.bits = bits;
  return both.value;
}
CCLMARK_DEVICE unsigned bits_of(float value) {
  FloatBits both;
  both.value = value;
  return both.bits;
}

/// What an element is kept as, what it is worked on as, and the way there and back.
template <typename Kept, typename Unsigned>
struct IntegerFormat {
  typedef Kept Raw;
  typedef Kept Wide;
  CCLMARK_DEVICE_STATIC Wide widen(Raw raw) { return raw; }
  CCLMARK_DEVICE_STATIC Raw narrow(Wide wide) { return wide; }
  // Sums and products wrap, which signed numbers must not.
  CCLMARK_DEVICE_STATIC Wide sum(Wide x, Wide y) { return (Wide)((Unsigned)x + (Unsigned)y); }
  CCLMARK_DEVICE_STATIC Wide product(Wide x, Wide y) { return (Wide)((Unsigned)x * (Unsigned)y); }
  // Divided in full width: the divisor may not fit into the type.
  CCLMARK_DEVICE_STATIC Wide divided(Wide x, unsigned n) {
    if ((Kept)-1 > (Kept)0) return (Wide)((unsigned long long)x / n);
    return (Wide)((long long)x / (long long)n);
  }
};

template <typename Real>
struct RealFormat {
  typedef Real Raw;
  typedef Real Wide;
  CCLMARK_DEVICE_STATIC Wide widen(Raw raw) { return raw; }
  CCLMARK_DEVICE_STATIC Raw narrow(Wide wide) { return wide; }
  CCLMARK_DEVICE_STATIC Wide sum(Wide x, Wide y) { return x + y; }
  CCLMARK_DEVICE_STATIC Wide product(Wide x, Wide y) { return x * y; }
  CCLMARK_DEVICE_STATIC Wide divided(Wide x, unsigned n) { return x / (Wide)n; }
};

/// As SmallFloat of core/number.hpp, in words that every compiler of kernels has.
template <typename Kept, int kExponent, int kMantissa, bool kFinite>
struct SmallFormat : RealFormat<float> {
  typedef Kept Raw;
  CCLMARK_DEVICE_STATIC float widen(Raw raw) {
    const unsigned mask = (1u << (kExponent + kMantissa)) - 1, top = ((1u << kExponent) - 1)
                                                                     << kMantissa;
    const int bias = (1 << (kExponent - 1)) - 1, shift = 23 - kMantissa;
    unsigned magnitude = raw & mask;
    unsigned bits = bits_of(float_of(magnitude << shift) * float_of((unsigned)(254 - bias) << 23));
    if (kFinite ? magnitude == mask : magnitude >= top) bits = 0x7f800000u | (magnitude << shift);
    return float_of(bits | ((unsigned)(raw >> (kExponent + kMantissa)) << 31));
  }
  CCLMARK_DEVICE_STATIC Raw narrow(float value) {
    const unsigned mask = (1u << (kExponent + kMantissa)) - 1, top = ((1u << kExponent) - 1)
                                                                     << kMantissa;
    const int bias = (1 << (kExponent - 1)) - 1, shift = 23 - kMantissa;
    const unsigned overflow = kFinite ? mask : top;
    const unsigned nan = kFinite ? mask : top | (1u << (kMantissa - 1));
    // Adding this pushes the bits below the smallest subnormal out, rounding to nearest.
    const unsigned magic = (unsigned)(127 + 24 - bias - kMantissa) << 23;
    unsigned raw = bits_of(value), magnitude = raw & 0x7fffffffu, packed;
    if (magnitude > 0x7f800000u) {
      packed = nan;
    } else if (magnitude < (unsigned)(128 - bias) << 23) {
      packed = bits_of(float_of(magnitude) + float_of(magic)) - magic;
    } else {
      packed = magnitude - ((unsigned)(127 - bias) << 23);
      packed = (packed + (1u << (shift - 1)) - 1 + ((packed >> shift) & 1u)) >> shift;
      if (magnitude == 0x7f800000u || packed >= overflow) packed = overflow;
    }
    return (Raw)(packed | ((raw >> 31) << (kExponent + kMantissa)));
  }
};

template <typename Format>
CCLMARK_DEVICE typename Format::Raw reduce_two(const ReduceArguments& a, typename Format::Raw one,
                                               typename Format::Raw other) {
  typedef typename Format::Wide Wide;
  Wide x = Format::widen(one), y = Format::widen(other), result;
  if (a.reduction == 0) {
    result = Format::sum(x, y);
    if (a.divisor > 1) result = Format::divided(result, a.divisor);
  } else if (a.reduction == 1) {
    result = Format::product(x, y);
  } else if (a.reduction == 2) {
    result = x > y ? x : y;
  } else {
    result = x < y ? x : y;
  }
  return Format::narrow(result);
}

template <typename Format>
CCLMARK_DEVICE Vector reduce_vectors(const ReduceArguments& a, Vector one, Vector other) {
  const int width = 16 / (int)sizeof(typename Format::Raw);
  union Elements {
    Vector vector;
    typename Format::Raw at[16 / sizeof(typename Format::Raw)];
  };
  Elements x, y;
  x.vector = one;
  y.vector = other;
  for (int i = 0; i < width; ++i) x.at[i] = reduce_two<Format>(a, x.at[i], y.at[i]);
  return x.vector;
}

template <typename Format>
CCLMARK_DEVICE void reduce_as(const ReduceArguments& a) {
  typedef typename Format::Raw Raw;
  const unsigned long long width = 16 / sizeof(Raw), stride = CCLMARK_ITEM_STRIDE;
  bool whole =
      (((unsigned long long)a.out | (unsigned long long)a.a | (unsigned long long)a.b) & 15u) == 0;
  unsigned long long vectors = whole ? a.count / width : 0, i = CCLMARK_FIRST_ITEM;
  // Four of each in flight: the other vector may lie on another device, and that is far away.
  for (; i + 3 * stride < vectors; i += 4 * stride) {
    Vector one[4], other[4];
    for (int k = 0; k < 4; ++k) {
      other[k] = ((const Vector*)a.b)[i + k * stride];
      one[k] = ((const Vector*)a.a)[i + k * stride];
    }
    for (int k = 0; k < 4; ++k) {
      ((Vector*)a.out)[i + k * stride] = reduce_vectors<Format>(a, one[k], other[k]);
    }
  }
  for (; i < vectors; i += stride) {
    ((Vector*)a.out)[i] =
        reduce_vectors<Format>(a, ((const Vector*)a.a)[i], ((const Vector*)a.b)[i]);
  }
  for (unsigned long long e = vectors * width + CCLMARK_FIRST_ITEM; e < a.count; e += stride) {
    ((Raw*)a.out)[e] = reduce_two<Format>(a, ((const Raw*)a.a)[e], ((const Raw*)a.b)[e]);
  }
}

/// A copy of `b`: for little, a kernel is done before a copy engine has begun.
CCLMARK_KERNEL(cclmark_take, ReduceArguments) {
  const unsigned long long stride = CCLMARK_ITEM_STRIDE;
  bool whole = (((unsigned long long)a.out | (unsigned long long)a.b) & 15u) == 0;
  unsigned long long vectors = whole ? a.count / 16 : 0;
  for (unsigned long long i = CCLMARK_FIRST_ITEM; i < vectors; i += stride) {
    ((Vector*)a.out)[i] = ((const Vector*)a.b)[i];
  }
  for (unsigned long long i = vectors * 16 + CCLMARK_FIRST_ITEM; i < a.count; i += stride) {
    a.out[i] = a.b[i];
  }
}

CCLMARK_KERNEL(cclmark_reduce, ReduceArguments) {
  switch (a.dtype) {
    case 0:
      return reduce_as<IntegerFormat<signed char, unsigned>>(a);
    case 1:
      return reduce_as<IntegerFormat<unsigned char, unsigned>>(a);
    case 2:
      return reduce_as<IntegerFormat<int, unsigned>>(a);
    case 3:
      return reduce_as<IntegerFormat<unsigned, unsigned>>(a);
    case 4:
      return reduce_as<IntegerFormat<long long, unsigned long long>>(a);
    case 5:
      return reduce_as<IntegerFormat<unsigned long long, unsigned long long>>(a);
    case 6:
      return reduce_as<SmallFormat<unsigned short, 5, 10, false>>(a);
    case 7:
      return reduce_as<RealFormat<float>>(a);
    case 8:
      return reduce_as<RealFormat<double>>(a);
    case 9:
      return reduce_as<SmallFormat<unsigned short, 8, 7, false>>(a);
    case 10:
      return reduce_as<SmallFormat<unsigned char, 4, 3, true>>(a);
    case 11:
      return reduce_as<SmallFormat<unsigned char, 5, 2, false>>(a);
    case 12:
      return reduce_as<IntegerFormat<short, unsigned>>(a);
    case 13:
      return reduce_as<IntegerFormat<unsigned short, unsigned>>(a);
  }
}
