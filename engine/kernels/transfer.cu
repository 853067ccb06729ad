// Copies between devices, what holds them up, and two ways to time a single access.
//
// Written in the dialect of dialect.cu, which comes before it wherever it is compiled. The host
// provides cclmark_now_ns() and cclmark_relax() itself.

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && !defined(CCLMARK_PORTABLE)
#define CCLMARK_BULK_COPY 1
#endif

/// Both addresses are equally far from a multiple of 16. The whole is copied `rounds` times.
struct CopyArguments {
  unsigned char* to;
  const unsigned char* from;
  unsigned long long bytes;
  unsigned rounds;
  unsigned stage_bytes;  ///< bulk copies: of shared memory for each stretch on its way
};

/// Bytes before the first 16-byte boundary.
CCLMARK_DEVICE unsigned long long copy_head(const CopyArguments& a) {
  unsigned long long head = (16u - ((unsigned long long)a.to & 15u)) & 15u;
  return head < a.bytes ? head : a.bytes;
}

CCLMARK_DEVICE void copy_bytes(const CopyArguments& a, unsigned long long first,
                               unsigned long long end) {
  for (unsigned long long i = first + CCLMARK_FIRST_ITEM; i < end; i += CCLMARK_ITEM_STRIDE) {
    a.to[i] = a.from[i];
  }
}

/// What lies before and after the whole vectors; returns their number and sets their places.
CCLMARK_DEVICE unsigned long long copy_edges(const CopyArguments& a, Vector** to,
                                             const Vector** from) {
  unsigned long long head = copy_head(a);
  unsigned long long vectors = (a.bytes - head) >> 4;
  copy_bytes(a, 0, head);
  copy_bytes(a, head + (vectors << 4), a.bytes);
  *to = (Vector*)(a.to + head);
  *from = (const Vector*)(a.from + head);
  return vectors;
}

/// Plain loads and stores of 4 bytes, as a first version of any kernel would have them.
CCLMARK_DEVICE void cache_copy(const CopyArguments& a) {
  const unsigned long long stride = CCLMARK_ITEM_STRIDE;
  const unsigned long long words = (((unsigned long long)a.to & 3u) == 0) ? a.bytes >> 2 : 0;
  unsigned* to = (unsigned*)a.to;
  const unsigned* from = (const unsigned*)a.from;
  unsigned long long i = CCLMARK_FIRST_ITEM;
  for (; i + 3 * stride < words; i += 4 * stride) {
    unsigned kept[4];
    for (int k = 0; k < 4; ++k) kept[k] = from[i + k * stride];
    for (int k = 0; k < 4; ++k) to[i + k * stride] = kept[k];
  }
  for (; i < words; i += stride) to[i] = from[i];
  copy_bytes(a, words << 2, a.bytes);
}

CCLMARK_KERNEL(cclmark_copy_cache, CopyArguments) {
  for (unsigned round = 0; round < a.rounds; ++round) cache_copy(a);
}

/// 16 bytes at a time through the read-only data cache.
CCLMARK_DEVICE void nc_copy(const CopyArguments& a) {
  const unsigned long long stride = CCLMARK_ITEM_STRIDE;
  Vector* to;
  const Vector* from;
  const unsigned long long vectors = copy_edges(a, &to, &from);
  unsigned long long i = CCLMARK_FIRST_ITEM;
  for (; i + 3 * stride < vectors; i += 4 * stride) {
    Vector kept[4];
    for (int k = 0; k < 4; ++k) kept[k] = CCLMARK_LOAD_READ_ONLY(from + i + k * stride);
    for (int k = 0; k < 4; ++k) to[i + k * stride] = kept[k];
  }
  for (; i < vectors; i += stride) to[i] = CCLMARK_LOAD_READ_ONLY(from + i);
}

CCLMARK_KERNEL(cclmark_copy_nc, CopyArguments) {
  for (unsigned round = 0; round < a.rounds; ++round) nc_copy(a);
}

#ifdef CCLMARK_BULK_COPY

// The bulk copy engine moves whole stretches between global and shared memory without passing
// through registers: one thread of a block keeps kBulkStages of them on their way.
#define CCLMARK_BULK_STAGES 12
#define CCLMARK_BULK_PENDING_STORES 6

CCLMARK_DEVICE unsigned shared_address(const void* pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}

CCLMARK_DEVICE void bulk_load(unsigned stage, const unsigned char* from, unsigned bytes,
                              unsigned barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(stage),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
      : "memory");
}

CCLMARK_DEVICE void bulk_await(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

CCLMARK_DEVICE void bulk_store(unsigned char* to, unsigned stage, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                   __cvta_generic_to_global(to)),
               "r"(stage), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// Thread 0 of each block moves the stretches blockIdx.x, blockIdx.x + gridDim.x and so on, and
/// begins the next round while the last stretches of the one before are on their way.
CCLMARK_DEVICE void bulk_copy(unsigned char* to, const unsigned char* from,
                              unsigned long long bytes, unsigned rounds, unsigned stage_bytes) {
  extern __shared__ __align__(128) unsigned char stages[];
  __shared__ unsigned long long full[CCLMARK_BULK_STAGES];
  if (threadIdx.x != 0) return;
  for (int s = 0; s < CCLMARK_BULK_STAGES; ++s) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full[s])));
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  const unsigned long long stretches = (bytes + stage_bytes - 1) / stage_bytes;
  if (blockIdx.x >= stretches) return;
  const unsigned long long own = (stretches - blockIdx.x + gridDim.x - 1) / gridDim.x;
  auto offset = [&](unsigned long long i) {
    return (blockIdx.x + i % own * gridDim.x) * (unsigned long long)stage_bytes;
  };
  auto length = [&](unsigned long long i) {
    unsigned long long rest = bytes - offset(i);
    return (unsigned)(rest < stage_bytes ? rest : stage_bytes);
  };
  auto load = [&](unsigned long long i) {
    unsigned s = (unsigned)(i % CCLMARK_BULK_STAGES);
    bulk_load(shared_address(stages) + s * stage_bytes, from + offset(i), length(i),
              shared_address(&full[s]));
  };
  const unsigned long long all = own * rounds;
  for (unsigned long long i = 0; i < all && i < CCLMARK_BULK_STAGES; ++i) load(i);
  for (unsigned long long i = 0; i < all; ++i) {
    unsigned s = (unsigned)(i % CCLMARK_BULK_STAGES);
    bulk_await(shared_address(&full[s]), (unsigned)(i / CCLMARK_BULK_STAGES) & 1u);
    bulk_store(to + offset(i), shared_address(stages) + s * stage_bytes, length(i));
    // A stage is loaded again once the store before last few has read it.
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(CCLMARK_BULK_PENDING_STORES) : "memory");
    if (i >= CCLMARK_BULK_PENDING_STORES) {
      unsigned long long next = i - CCLMARK_BULK_PENDING_STORES + CCLMARK_BULK_STAGES;
      if (next < all) load(next);
    }
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

#endif

/// The fastest there is: the bulk copy engine where there is one, else many 16-byte copies on their
/// way at once.
CCLMARK_KERNEL(cclmark_copy_bulk, CopyArguments) {
  Vector* to;
  const Vector* from;
  const unsigned long long vectors = copy_edges(a, &to, &from);
#ifdef CCLMARK_BULK_COPY
  bulk_copy((unsigned char*)to, (const unsigned char*)from, vectors << 4, a.rounds, a.stage_bytes);
#else
  const unsigned long long stride = CCLMARK_ITEM_STRIDE;
  for (unsigned round = 0; round < a.rounds; ++round) {
    unsigned long long i = CCLMARK_FIRST_ITEM;
    for (; i + 11 * stride < vectors; i += 12 * stride) {
      Vector kept[12];
      for (int k = 0; k < 12; ++k) kept[k] = from[i + k * stride];
      for (int k = 0; k < 12; ++k) to[i + k * stride] = kept[k];
    }
    for (; i < vectors; i += stride) to[i] = from[i];
  }
#endif
}

/// Holds up a stream for a while.
struct DelayArguments {
  unsigned long long ns;
};

#ifndef CCLMARK_PORTABLE
CCLMARK_KERNEL(cclmark_delay, DelayArguments) {
  const unsigned long long begin = cclmark_now_ns();
  while (cclmark_now_ns() - begin < a.ns) cclmark_relax();
}
#endif

/// Follows a chain of addresses, each known only when the one before has arrived. One thread of
/// block `block` does; the others let it run on that multiprocessor.
struct ChaseArguments {
  const unsigned char* chain;
  unsigned accesses;
  unsigned block;
  unsigned long long* end;
};

#ifdef CCLMARK_ON_DEVICE
#define CCLMARK_BLOCK blockIdx.x
#else
#define CCLMARK_BLOCK a.block
#endif

CCLMARK_KERNEL(cclmark_chase, ChaseArguments) {
  if (CCLMARK_BLOCK != a.block) return;
  const unsigned char* at = a.chain;
  for (unsigned i = 0; i < a.accesses; ++i) at = *(const unsigned char* const*)at;
  if (at == nullptr) *a.end = 1;  // never so: it keeps the loop alive
}

/// Two devices write each other's mailbox in turn. `failed` is set when an answer takes longer than
/// `limit_ns`.
struct PingPongArguments {
  volatile unsigned* own;
  volatile unsigned* other;
  unsigned first_value;
  unsigned rounds;
  unsigned begins;
  unsigned long long limit_ns;
  unsigned* failed;
};

#ifndef CCLMARK_PORTABLE
CCLMARK_DEVICE bool await_value(const PingPongArguments& a, unsigned value) {
  for (unsigned looks = 1; *a.own != value; ++looks) {
    cclmark_relax();
    if (looks % 4096 != 0) continue;
    const unsigned long long begin = cclmark_now_ns();
    while (*a.own != value) {
      cclmark_relax();
      if (cclmark_now_ns() - begin > a.limit_ns) return false;
    }
    return true;
  }
  return true;
}

CCLMARK_KERNEL(cclmark_ping_pong, PingPongArguments) {
  for (unsigned i = 0; i < a.rounds; ++i) {
    const unsigned value = a.first_value + i;
    if (a.begins) *a.other = value;
    if (!await_value(a, value)) {
      *a.failed = 1;
      return;
    }
    if (!a.begins) *a.other = value;
  }
}
#endif
