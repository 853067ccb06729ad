// What the kernels are written in: CUDA's words where a CUDA or HIP compiler reads them, plain C++
// that does the work of all threads one after the other where the host's compiler does.
//
// Kernels are compiled three ways: by NVRTC or another vendor's run-time compiler when the program
// runs, by the C++ compiler for the host, and by nvcc in the tests. So this file and theirs include
// nothing. With CCLMARK_PORTABLE they use only words that all vendors' compilers have in common: no
// clock, for example, so that kernels which read one are missing.

#if defined(CCLMARK_PORTABLE) || defined(__CUDACC__) || defined(__CUDACC_RTC__) || \
    defined(__HIPCC__) || defined(__HIPCC_RTC__)
#define CCLMARK_ON_DEVICE
#define CCLMARK_KERNEL(name, Arguments) extern "C" __global__ void name(const Arguments a)
#define CCLMARK_FIRST_ITEM (blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x)
#define CCLMARK_ITEM_STRIDE (gridDim.x * (unsigned long long)blockDim.x)
#define CCLMARK_ADD(target, value) atomicAdd(target, value)
#define CCLMARK_MIN(target, value) atomicMin(target, value)
#ifdef CCLMARK_PORTABLE
#define CCLMARK_DEVICE static __device__ inline
#define CCLMARK_DEVICE_STATIC static __device__ inline
#else
#define CCLMARK_DEVICE __device__ __forceinline__
#define CCLMARK_DEVICE_STATIC static __device__ __forceinline__  // members of structures
#define CCLMARK_LOAD_ONCE(pointer) __ldcs(pointer)
#define CCLMARK_LOAD_READ_ONLY(pointer) __ldg(pointer)
typedef uint4 Vector;
#endif
#if defined(__CUDA_ARCH__) && !defined(CCLMARK_PORTABLE)
/// Nanoseconds on a clock of the device.
static __device__ __forceinline__ unsigned long long cclmark_now_ns() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
/// Lets others go on between two looks at a flag.
static __device__ __forceinline__ void cclmark_relax() {}
#endif
#else
#define CCLMARK_DEVICE static inline
#define CCLMARK_DEVICE_STATIC static inline
#define CCLMARK_KERNEL(name, Arguments) [[maybe_unused]] void name(const Arguments& a)
#define CCLMARK_FIRST_ITEM 0ull
#define CCLMARK_ITEM_STRIDE 1ull
#define CCLMARK_ADD(target, value) (*(target) += (value))
#define CCLMARK_MIN(target, value) (*(target) = *(target) < (value) ? *(target) : (value))
#endif
#ifndef CCLMARK_LOAD_ONCE
#define CCLMARK_LOAD_ONCE(pointer) (*(pointer))
#define CCLMARK_LOAD_READ_ONLY(pointer) (*(pointer))
struct alignas(16) Vector {
  unsigned x, y, z, w;
};
#endif
