// The pattern that inputs are made of and outputs are checked against.
//
// A table of 4 KiB repeats through the buffer. Each block of 4 KiB holds the table turned by a
// number of 16-byte vectors that depends on the block and on the seed, so that data which arrives
// in the wrong place differs, while the value at any byte is one cheap look-up: neither filling nor
// checking needs a second buffer, and both run at the speed of memory for every element type.
//
// Written in the dialect of dialect.cu, which comes before it wherever it is compiled.

/// Where a stretch of pattern lies: `source_byte` is the offset of its first byte in the pattern,
/// whatever offset `data` has in the buffer.
struct PatternArguments {
  unsigned char* data;
  unsigned long long bytes;
  const unsigned char* table;
  unsigned long long source_byte;
  unsigned seed;
  unsigned element_bytes;
  /// Checking only: the element of the output that `data` begins with, and where to report.
  unsigned long long first_element;
  unsigned long long* wrong_count;
  unsigned long long* first_wrong;
};

/// How far block `block` of the pattern is turned, in vectors (0..255).
CCLMARK_DEVICE unsigned pattern_turn(unsigned long long block, unsigned seed) {
  unsigned mixed = (unsigned)block * 0x9e3779b9u + (unsigned)(block >> 32) + seed;
  mixed = (mixed ^ (mixed >> 16)) * 0x85ebca6bu;
  mixed = (mixed ^ (mixed >> 13)) * 0xc2b2ae35u;
  return mixed >> 24;
}

/// The offset in the table of the byte at offset `byte` of the pattern.
CCLMARK_DEVICE unsigned pattern_offset(unsigned long long byte, unsigned seed) {
  unsigned vector = (unsigned)(byte >> 4) + pattern_turn(byte >> 12, seed);
  return (vector & 255u) << 4 | ((unsigned)byte & 15u);
}

CCLMARK_DEVICE unsigned differing_elements(unsigned x, unsigned element_bytes) {
  if (element_bytes >= 4) return x != 0;
  if (element_bytes == 2) return ((x & 0xffffu) != 0) + ((x >> 16) != 0);
  return ((x & 0xffu) != 0) + ((x & 0xff00u) != 0) + ((x & 0xff0000u) != 0) + ((x >> 24) != 0);
}

/// Reports the differences between a vector of output and the pattern: rare, so kept out of the
/// way.
CCLMARK_DEVICE void report_vector(const PatternArguments& a, unsigned long long byte, Vector got,
                                  Vector want) {
  unsigned x[4] = {got.x ^ want.x, got.y ^ want.y, got.z ^ want.z, got.w ^ want.w};
  unsigned long long wrong = 0;
  if (a.element_bytes == 8) {
    wrong = ((x[0] | x[1]) != 0) + ((x[2] | x[3]) != 0);
  } else {
    for (int i = 0; i < 4; ++i) wrong += differing_elements(x[i], a.element_bytes);
  }
  unsigned first_byte = 0;
  while (((x[first_byte >> 2] >> ((first_byte & 3u) << 3)) & 0xffu) == 0) ++first_byte;
  CCLMARK_ADD(a.wrong_count, wrong);
  CCLMARK_MIN(a.first_wrong, a.first_element + (byte + first_byte) / a.element_bytes);
}

/// Whether whole vectors of data and of pattern line up, so that 16 bytes go at a time.
CCLMARK_DEVICE bool pattern_aligned(const PatternArguments& a) {
  return (((unsigned long long)a.data | a.source_byte) & 15u) == 0;
}

CCLMARK_DEVICE Vector pattern_vector(const PatternArguments& a, unsigned long long index) {
  return *(const Vector*)(a.table + pattern_offset(a.source_byte + (index << 4), a.seed));
}

CCLMARK_KERNEL(cclmark_fill, PatternArguments) {
  unsigned long long vectors = pattern_aligned(a) ? a.bytes >> 4 : 0;
  for (unsigned long long i = CCLMARK_FIRST_ITEM; i < vectors; i += CCLMARK_ITEM_STRIDE) {
    ((Vector*)a.data)[i] = pattern_vector(a, i);
  }
  for (unsigned long long i = (vectors << 4) + CCLMARK_FIRST_ITEM; i < a.bytes;
       i += CCLMARK_ITEM_STRIDE) {
    a.data[i] = a.table[pattern_offset(a.source_byte + i, a.seed)];
  }
}

CCLMARK_DEVICE bool differs(Vector got, Vector want) {
  return ((got.x ^ want.x) | (got.y ^ want.y) | (got.z ^ want.z) | (got.w ^ want.w)) != 0;
}

CCLMARK_KERNEL(cclmark_verify, PatternArguments) {
  const unsigned long long stride = CCLMARK_ITEM_STRIDE;
  unsigned long long vectors = pattern_aligned(a) ? a.bytes >> 4 : 0;
  unsigned long long i = CCLMARK_FIRST_ITEM;
  // Four loads in flight before the first comparison: one alone leaves the memory idle.
  for (; i + 3 * stride < vectors; i += 4 * stride) {
    Vector got[4], want[4];
    for (int k = 0; k < 4; ++k) got[k] = CCLMARK_LOAD_ONCE((const Vector*)a.data + i + k * stride);
    for (int k = 0; k < 4; ++k) want[k] = pattern_vector(a, i + k * stride);
    for (int k = 0; k < 4; ++k) {
      if (differs(got[k], want[k])) report_vector(a, (i + k * stride) << 4, got[k], want[k]);
    }
  }
  for (; i < vectors; i += stride) {
    Vector got = CCLMARK_LOAD_ONCE((const Vector*)a.data + i);
    Vector want = pattern_vector(a, i);
    if (differs(got, want)) report_vector(a, i << 4, got, want);
  }
  const unsigned long long elements = (a.bytes - (vectors << 4)) / a.element_bytes;
  for (unsigned long long e = CCLMARK_FIRST_ITEM; e < elements; e += CCLMARK_ITEM_STRIDE) {
    unsigned long long byte = (vectors << 4) + e * a.element_bytes;
    bool wrong = false;
    for (unsigned k = 0; k < a.element_bytes; ++k) {
      wrong |= a.data[byte + k] != a.table[pattern_offset(a.source_byte + byte + k, a.seed)];
    }
    if (wrong) {
      CCLMARK_ADD(a.wrong_count, 1ull);
      CCLMARK_MIN(a.first_wrong, a.first_element + byte / a.element_bytes);
    }
  }
}

/// Takes as much of a graph's memory as the kernels of libraries, and does nothing.
struct SpaceArguments {
  unsigned long long unused[480];
};

CCLMARK_KERNEL(cclmark_space, SpaceArguments) {
  (void)a;
}
