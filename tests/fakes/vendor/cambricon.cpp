// Cambricon's runtime over the fake driver: queues and notifiers, other numbers, and arguments in
// another order than CUDA's.

#include <cstdio>

#include "common/export.hpp"
#include "vendor/shim.hpp"

namespace fake_cuda {
namespace {

enum Code : int {
  kFine = 0,
  kBusy = 1,
  kNoSuchDevice = 100004,
  kNoMemory = 100100,
  kBadArgument = 100006,
  kDriverFailed = 100124,
};
constexpr int kCacheAttribute = 0x301;
enum Way : int { kHostToDev, kDevToDev, kDevToHost, kNoDirection = 5 };

int code_of(int status) {
  switch (status) {
    case kSuccess:
      return kFine;
    case kNotReady:
      return kBusy;
    case kNoDevice:
    case kInvalidDevice:
      return kNoSuchDevice;
    case kOutOfMemory:
      return kNoMemory;
    case kInvalidValue:
      return kBadArgument;
    default:
      return kDriverFailed;
  }
}

int direction_of(int way) {
  switch (way) {
    case kHostToDev:
      return kToDevice;
    case kDevToDev:
      return kOnDevice;
    case kDevToHost:
      return kToHost;
    case kNoDirection:
      return kAny;
    default:
      throw Refusal{kInvalidValue};
  }
}

}  // namespace

FAKE_API const char* cnrtGetErrorStr(int code) {
  switch (code) {
    case kFine:
      return "the API call returns with no errors";
    case kBusy:
      return "the resource requested is busy now";
    case kNoSuchDevice:
      return "no such device";
    case kNoMemory:
      return "out of device memory";
    case kBadArgument:
      return "invalid argument";
    default:
      return "a call of the driver failed";
  }
}

FAKE_API const char* cnrtGetErrorName(int code) {
  switch (code) {
    case kFine:
      return "cnrtSuccess";
    case kBusy:
      return "cnrtErrorNotReady";
    case kNoSuchDevice:
      return "cnrtErrorNoDevice";
    case kNoMemory:
      return "cnrtErrorNoMem";
    default:
      return "cnrtErrorArgsInvalid";
  }
}

FAKE_API int cnrtGetDeviceCount(unsigned* count) {
  return code_of(guarded([&] {
    require(count != nullptr, kInvalidValue);
    Driver::instance().initialize();
    *count = static_cast<unsigned>(Driver::instance().device_count());
  }));
}

FAKE_API int cnrtSetDevice(int device) {
  return code_of(guarded([&] { Driver::instance().set_current(context_of(device)); }));
}

FAKE_API int cnrtGetDeviceProperties(void* properties, int device) {
  return code_of(guarded([&] {
    context_of(device);
    require(properties != nullptr, kInvalidValue);
    auto* filled = static_cast<Properties*>(properties);
    std::snprintf(filled->name, sizeof(filled->name), "CCLMark Fake MLU");
  }));
}

FAKE_API int cnrtDeviceGetPCIBusId(char* id, int bytes, int device) {
  return code_of(cuDeviceGetPCIBusId(id, bytes, device));
}

FAKE_API int cnrtDeviceGetAttribute(int* value, int attribute, int device) {
  return code_of(guarded([&] {
    context_of(device);
    require(value != nullptr && attribute == kCacheAttribute, kInvalidValue);
    *value = 1 << 20;
  }));
}

FAKE_API int cnrtMemGetInfo(size_t* free, size_t* total) {
  return code_of(cuMemGetInfo_v2(free, total));
}

FAKE_API int cnrtMalloc(void** memory, size_t bytes) {
  return code_of(cuMemAlloc_v2(reinterpret_cast<CUdeviceptr*>(memory), bytes));
}

FAKE_API int cnrtFree(void* memory) {
  return code_of(cuMemFree_v2(address(memory)));
}

FAKE_API int cnrtHostMalloc(void** memory, size_t bytes) {
  return code_of(cuMemHostAlloc(memory, bytes, 0));
}

FAKE_API int cnrtFreeHost(void* memory) {
  return code_of(cuMemFreeHost(memory));
}

FAKE_API int cnrtMemcpy(void* to, const void* from, size_t bytes, int way) {
  return code_of(guarded([&] {
    int direction = direction_of(way);
    require_direction(to, from, bytes, direction);
    require(direction == kToDevice || direction == kToHost, kNotSupported);
    require_ok(direction == kToDevice ? cuMemcpyHtoD_v2(address(to), from, bytes)
                                      : cuMemcpyDtoH_v2(to, address(from), bytes));
  }));
}

FAKE_API int cnrtMemcpyAsync_V2(void* to, const void* from, size_t bytes, void* queue, int way) {
  return code_of(guarded([&] {
    require_direction(to, from, bytes, direction_of(way));
    require_ok(cuMemcpyAsync(address(to), address(from), bytes, queue));
  }));
}

FAKE_API int cnrtMemsetAsync(void* to, int value, size_t bytes, void* queue) {
  return code_of(cuMemsetD8Async(address(to), static_cast<unsigned char>(value), bytes, queue));
}

FAKE_API int cnrtQueueCreate(void** queue) {
  return code_of(cuStreamCreate(queue, 1));
}

FAKE_API int cnrtQueueDestroy(void* queue) {
  return code_of(cuStreamDestroy_v2(queue));
}

FAKE_API int cnrtQueueQuery(void* queue) {
  return code_of(cuStreamQuery(queue));
}

FAKE_API int cnrtInvokeHostFunc(void* queue, void (*function)(void*), void* argument) {
  return code_of(cuLaunchHostFunc(queue, function, argument));
}

FAKE_API int cnrtNotifierCreate(void** notifier) {
  return code_of(cuEventCreate(notifier, 0));
}

FAKE_API int cnrtNotifierDestroy(void* notifier) {
  return code_of(cuEventDestroy_v2(notifier));
}

FAKE_API int cnrtPlaceNotifier(void* notifier, void* queue) {
  return code_of(cuEventRecord(notifier, queue));
}

FAKE_API int cnrtNotifierDuration(void* start, void* end, float* elapsed_us) {
  float elapsed_ms = 0;
  int status = elapsed_us == nullptr ? kInvalidValue : cuEventElapsedTime(&elapsed_ms, start, end);
  if (status == kSuccess) *elapsed_us = elapsed_ms * 1000;
  return code_of(status);
}

FAKE_API int cnrtGetPeerAccessibility(unsigned* possible, int device, int peer) {
  int known = 0;
  int status = possible == nullptr ? kInvalidValue : cuDeviceCanAccessPeer(&known, device, peer);
  if (status == kSuccess) *possible = static_cast<unsigned>(known);
  return code_of(status);
}

}  // namespace fake_cuda
