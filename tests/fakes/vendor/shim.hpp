#pragma once

// What the vendors' runtimes have in common: they are shims over the fake driver.

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "cuda/driver.hpp"

// The driver's interface, which this one is a shim over. The linker hides it.
extern "C" {
using CUdeviceptr = unsigned long long;
struct OpaqueHandle {
  char bytes[64];
};
int cuMemGetInfo_v2(size_t*, size_t*);
int cuMemAlloc_v2(CUdeviceptr*, size_t);
int cuMemFree_v2(CUdeviceptr);
int cuMemHostAlloc(void**, size_t, unsigned);
int cuMemFreeHost(void*);
int cuMemHostRegister_v2(void*, size_t, unsigned);
int cuMemHostUnregister(void*);
int cuMemHostGetDevicePointer_v2(CUdeviceptr*, void*, unsigned);
int cuMemcpyDtoH_v2(void*, CUdeviceptr, size_t);
int cuMemcpyHtoD_v2(CUdeviceptr, const void*, size_t);
int cuMemcpyAsync(CUdeviceptr, CUdeviceptr, size_t, void*);
int cuMemcpyPeerAsync(CUdeviceptr, void*, CUdeviceptr, void*, size_t, void*);
int cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, void*);
int cuStreamCreate(void**, unsigned);
int cuStreamDestroy_v2(void*);
int cuStreamQuery(void*);
int cuStreamWaitValue32_v2(void*, CUdeviceptr, uint32_t, unsigned);
int cuStreamWriteValue32_v2(void*, CUdeviceptr, uint32_t, unsigned);
int cuLaunchHostFunc(void*, void (*)(void*), void*);
int cuStreamWaitEvent(void*, void*, unsigned);
int cuStreamBeginCapture_v2(void*, int);
int cuStreamEndCapture(void*, void**);
int cuEventCreate(void**, unsigned);
int cuEventDestroy_v2(void*);
int cuEventRecord(void*, void*);
int cuEventElapsedTime(float*, void*, void*);
int cuGraphInstantiateWithFlags(void**, void*, unsigned long long);
int cuGraphLaunch(void*, void*);
int cuGraphDestroy(void*);
int cuGraphExecDestroy(void*);
int cuDeviceCanAccessPeer(int*, int, int);
int cuCtxEnablePeerAccess(void*, unsigned);
int cuCtxDisablePeerAccess(void*);
int cuDeviceGetPCIBusId(char*, int, int);
int cuIpcGetMemHandle(OpaqueHandle*, CUdeviceptr);
int cuIpcOpenMemHandle_v2(CUdeviceptr*, OpaqueHandle, unsigned);
int cuIpcCloseMemHandle(CUdeviceptr);
}

namespace fake_cuda {

/// What a copy is told of its direction, by the numbers of CUDA.
enum Direction : int { kHostToHost, kToDevice, kToHost, kOnDevice, kAny };
constexpr int kInvalidDirection = 21;

inline CUdeviceptr address(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

/// Contexts of the devices that were used. None is given back, as in the real runtimes.
struct Contexts {
  std::mutex mutex;
  std::map<int, void*> handles;
};

inline void* context_of(int device) {
  static auto* contexts = new Contexts;
  Driver::instance().initialize();
  Driver::instance().require_device(device);
  std::lock_guard lock(contexts->mutex);
  void*& handle = contexts->handles[device];
  if (handle == nullptr) handle = Driver::instance().retain(device);
  return handle;
}

inline bool on_device(const void* memory, size_t bytes) {
  auto known = Driver::instance().find_memory(memory, bytes);
  return known.has_value() && known->device != kHost;
}

/// The real runtimes trust the direction that the caller gives, and copy rubbish or die.
inline void require_direction(const void* to, const void* from, size_t bytes, int direction) {
  bool given = direction >= kHostToHost && direction <= kAny;
  require(given, static_cast<Status>(kInvalidDirection));
  if (direction == kAny) return;
  bool to_device = direction == kToDevice || direction == kOnDevice;
  bool from_device = direction == kToHost || direction == kOnDevice;
  bool fits = on_device(to, bytes) == to_device && on_device(from, bytes) == from_device;
  require(fits, static_cast<Status>(kInvalidDirection));
}

inline void require_ok(int status) {
  require(status == 0, static_cast<Status>(status));
}

/// Every vendor's description of a device begins with its name; the rest is not looked at here.
struct Properties {
  char name[256];
  size_t memory_bytes;
};

}  // namespace fake_cuda
