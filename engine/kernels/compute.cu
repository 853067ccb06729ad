// The work of a device beside a collective, and the checks of its results.
//
// Written in the dialect of dialect.cu, which comes before it wherever it is compiled.

/// A square matrix, stored column by column, that consists of copies of one square tile. The tile
/// at the last row and column may be cut off. `tile` has `period` rows, stored likewise. Elements
/// have 2 or 4 bytes.
struct TiledArguments {
  unsigned char* matrix;
  const unsigned char* tile;
  unsigned long long order;
  unsigned period;
  unsigned element_bytes;
  /// Checking only: the number of differing elements and the index of the first one.
  unsigned long long* wrong_count;
  unsigned long long* first_wrong;
};

CCLMARK_DEVICE unsigned long long tiled_source(const TiledArguments& a, unsigned long long index) {
  const unsigned long long row = index % a.order, column = index / a.order;
  return row % a.period + column % a.period * a.period;
}

CCLMARK_KERNEL(cclmark_tile, TiledArguments) {
  const unsigned long long elements = a.order * a.order;
  for (unsigned long long i = CCLMARK_FIRST_ITEM; i < elements; i += CCLMARK_ITEM_STRIDE) {
    const unsigned long long source = tiled_source(a, i);
    if (a.element_bytes == 2) {
      ((unsigned short*)a.matrix)[i] = ((const unsigned short*)a.tile)[source];
    } else {
      ((unsigned*)a.matrix)[i] = ((const unsigned*)a.tile)[source];
    }
  }
}

CCLMARK_KERNEL(cclmark_check_tiles, TiledArguments) {
  const unsigned long long elements = a.order * a.order;
  for (unsigned long long i = CCLMARK_FIRST_ITEM; i < elements; i += CCLMARK_ITEM_STRIDE) {
    const unsigned long long source = tiled_source(a, i);
    const bool equal =
        a.element_bytes == 2
            ? ((const unsigned short*)a.matrix)[i] == ((const unsigned short*)a.tile)[source]
            : ((const unsigned*)a.matrix)[i] == ((const unsigned*)a.tile)[source];
    if (!equal) {
      CCLMARK_ADD(a.wrong_count, 1ull);
      CCLMARK_MIN(a.first_wrong, i);
    }
  }
}

/// The triad of the STREAM benchmark, sum = first + factor * second, on `quads` groups of four
/// floats: two arrays are read, one is written.
struct TriadArguments {
  float* sum;
  float* first;
  float* second;
  unsigned long long quads;
  float factor;
  unsigned long long* wrong_count;
  unsigned long long* first_wrong;
};

struct alignas(16) Quad {
  float x, y, z, w;
};

/// Small whole numbers, so that the triad is exact. Their periods have no common divisor.
CCLMARK_DEVICE float triad_first(unsigned long long i) {
  return (float)(i % 251);
}
CCLMARK_DEVICE float triad_second(unsigned long long i) {
  return (float)(i % 127) - 63.0f;
}

CCLMARK_KERNEL(cclmark_fill_triad, TriadArguments) {
  const unsigned long long elements = a.quads * 4;
  for (unsigned long long i = CCLMARK_FIRST_ITEM; i < elements; i += CCLMARK_ITEM_STRIDE) {
    a.first[i] = triad_first(i);
    a.second[i] = triad_second(i);
  }
}

CCLMARK_KERNEL(cclmark_triad, TriadArguments) {
  const Quad* first = (const Quad*)a.first;
  const Quad* second = (const Quad*)a.second;
  Quad* sum = (Quad*)a.sum;
  for (unsigned long long i = CCLMARK_FIRST_ITEM; i < a.quads; i += CCLMARK_ITEM_STRIDE) {
    const Quad x = first[i], y = second[i];
    Quad result;
    result.x = x.x + a.factor * y.x;
    result.y = x.y + a.factor * y.y;
    result.z = x.z + a.factor * y.z;
    result.w = x.w + a.factor * y.w;
    sum[i] = result;
  }
}

CCLMARK_KERNEL(cclmark_check_triad, TriadArguments) {
  const unsigned long long elements = a.quads * 4;
  for (unsigned long long i = CCLMARK_FIRST_ITEM; i < elements; i += CCLMARK_ITEM_STRIDE) {
    if (a.sum[i] != triad_first(i) + a.factor * triad_second(i)) {
      CCLMARK_ADD(a.wrong_count, 1ull);
      CCLMARK_MIN(a.first_wrong, i);
    }
  }
}
