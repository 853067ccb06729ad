// Put before the text of every kernel by the fake NVRTC: CUDA's words, as far as kernels without
// shared memory need them, in terms of a C++ compiler for the host. Follows cuda/kernel_entry.hpp.

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include <utility>

// The search for kernels gives this word a meaning of its own.
#ifndef __global__
#define __global__
#endif
#define __device__
#define __host__

// What only NVIDIA's compiler has for certain is missing in the fakes of others.
#ifndef FAKE_PORTABLE_ONLY
#define __CUDACC_RTC__ 1
#define __forceinline__ inline __attribute__((always_inline))

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
#endif

namespace cclmark_fake {

struct Indices {
  FakeExtent thread, block, block_size, grid;
};

static pthread_key_t indices_key;

/// Those of the launch that this thread, a stream's, runs; the same all through a kernel.
__attribute__((const, noinline)) static Indices& indices() {
  pthread_key_t key = __atomic_load_n(&indices_key, __ATOMIC_RELAXED);
  return *static_cast<Indices*>(pthread_getspecific(key));
}

}  // namespace cclmark_fake

#define threadIdx (cclmark_fake::indices().thread)
#define blockIdx (cclmark_fake::indices().block)
#define blockDim (cclmark_fake::indices().block_size)
#define gridDim (cclmark_fake::indices().grid)

#ifndef FAKE_PORTABLE_ONLY
template <typename T>
static inline T __ldcs(const T* pointer) {
  return *pointer;
}

template <typename T>
static inline T __ldg(const T* pointer) {
  return *pointer;
}

static inline void __threadfence_system() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void __nanosleep(unsigned) {
  sched_yield();
}

/// Kernels for a device have their own two of these.
static inline void cclmark_relax() {
  sched_yield();
}
static inline unsigned long long cclmark_now_ns() {
  static const char* const ahead = getenv("CCLMARK_FAKE_DEVICE_CLOCK_AHEAD_NS");
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ull + now.tv_nsec +
         (ahead != nullptr ? strtoull(ahead, nullptr, 10) : 0);
}
#endif

static inline unsigned long long atomicAdd(unsigned long long* target, unsigned long long value) {
  return __atomic_fetch_add(target, value, __ATOMIC_RELAXED);
}

static inline unsigned long long atomicMin(unsigned long long* target, unsigned long long value) {
  unsigned long long old = __atomic_load_n(target, __ATOMIC_RELAXED);
  while (value < old && !__atomic_compare_exchange_n(target, &old, value, true, __ATOMIC_RELAXED,
                                                     __ATOMIC_RELAXED)) {
  }
  return old;
}

namespace cclmark_fake {

template <auto kernel>
struct Launcher;

template <typename... Parameters, void (*kernel)(Parameters...)>
struct Launcher<kernel> {
  static constexpr unsigned kCount = sizeof...(Parameters);
  /// One more than there are, since an array of none is none.
  static constexpr unsigned long kBytes[kCount + 1] = {sizeof(Parameters)..., 0};

  /// Not part of run(), so that no kernel asks for its indices before they are there.
  template <std::size_t... index>
  __attribute__((noinline)) static void run_block(Indices& at, void* const* parameters,
                                                  std::index_sequence<index...>) {
    for (at.thread.z = 0; at.thread.z < at.block_size.z; ++at.thread.z) {
      for (at.thread.y = 0; at.thread.y < at.block_size.y; ++at.thread.y) {
        for (at.thread.x = 0; at.thread.x < at.block_size.x; ++at.thread.x) {
          kernel(*static_cast<const Parameters*>(parameters[index])...);
        }
      }
    }
  }

  static void run(FakeExtent grid, FakeExtent block, void* const* parameters, unsigned key) {
    Indices at{{}, {}, block, grid};
    __atomic_store_n(&indices_key, key, __ATOMIC_RELAXED);
    pthread_setspecific(key, &at);
    for (at.block.z = 0; at.block.z < grid.z; ++at.block.z) {
      for (at.block.y = 0; at.block.y < grid.y; ++at.block.y) {
        for (at.block.x = 0; at.block.x < grid.x; ++at.block.x) {
          run_block(at, parameters, std::make_index_sequence<kCount>());
        }
      }
    }
  }
};

}  // namespace cclmark_fake

/// Stands behind the text of a kernel, once for each kernel in it.
#define CCLMARK_FAKE_ENTRY(name)                                                            \
  extern "C" __attribute__((visibility("default")))                                         \
  const FakeKernelEntry cclmark_fake_entry_##name = {cclmark_fake::Launcher<&name>::kCount, \
                                                     cclmark_fake::Launcher<&name>::kBytes, \
                                                     &cclmark_fake::Launcher<&name>::run};
