// A vendor's runtime that is shaped like CUDA's, over the fake driver: built once for each vendor,
// with VENDOR its prefix. Numbers of errors are CUDA's where VENDOR_NOT_READY does not say
// otherwise.

#include <cstdio>

#include "common/export.hpp"
#include "vendor/shim.hpp"

#define JOINED(prefix, name) prefix##name
#define JOIN(prefix, name) JOINED(prefix, name)
#define CALL(name) JOIN(VENDOR, name)
#define TEXT_OF(word) #word
#define TEXT(word) TEXT_OF(word)

#ifndef VENDOR_NOT_READY
#define VENDOR_NOT_READY 600
#endif
#ifndef VENDOR_CACHE_ATTRIBUTE
#define VENDOR_CACHE_ATTRIBUTE 38
#endif
#ifndef VENDOR_PROCESSORS_ATTRIBUTE
#define VENDOR_PROCESSORS_ATTRIBUTE 16
#endif
#ifndef VENDOR_IPC_FLAGS
#define VENDOR_IPC_FLAGS 1
#endif

namespace fake_cuda {
namespace {

constexpr int kCacheBytes = 1 << 20;
constexpr int kMultiprocessors = 8;
[[maybe_unused]] constexpr int kComputeMajor = 75, kComputeMinor = 76;
constexpr unsigned kHostFlags = 0x7;

thread_local int last_error = 0;

/// What a call of this interface returns, and what a later call of GetLastError repeats.
int told(int status) {
  int code = status == kNotReady ? VENDOR_NOT_READY : status;
  if (code != 0) last_error = code;
  return code;
}

}  // namespace

FAKE_API const char* CALL(GetErrorString)(int code) {
  if (code == VENDOR_NOT_READY) return describe(kNotReady);
  if (code == kInvalidDirection) return "invalid argument for the direction of a copy";
  const char* text = describe(code);
  return text != nullptr ? text : "unrecognized error code";
}

FAKE_API const char* CALL(GetErrorName)(int code) {
  if (code == VENDOR_NOT_READY) return TEXT(VENDOR) "ErrorNotReady";
  if (code == kOutOfMemory) return TEXT(VENDOR) "ErrorOutOfMemory";
  return code == 0 ? TEXT(VENDOR) "Success" : TEXT(VENDOR) "Error";
}

FAKE_API int CALL(GetLastError)() {
  int code = last_error;
  last_error = 0;
  return code;
}

FAKE_API int CALL(RuntimeGetVersion)(int* version) {
  return told(guarded([&] {
    require(version != nullptr, kInvalidValue);
    *version = VENDOR_VERSION;
  }));
}

FAKE_API int CALL(GetDeviceCount)(int* count) {
  return told(guarded([&] {
    require(count != nullptr, kInvalidValue);
    *count = 0;
    Driver::instance().initialize();
    *count = Driver::instance().device_count();
  }));
}

FAKE_API int CALL(SetDevice)(int device) {
  return told(guarded([&] { Driver::instance().set_current(context_of(device)); }));
}

FAKE_API int CALL(GetDevice)(int* device) {
  return told(guarded([&] {
    require(device != nullptr, kInvalidValue);
    *device = Driver::instance().current()->device;
  }));
}

FAKE_API int CALL(DeviceGetName)(char* name, int bytes, int device) {
  return told(guarded([&] {
    context_of(device);
    require(name != nullptr && bytes > 0, kInvalidValue);
    std::snprintf(name, static_cast<size_t>(bytes), "CCLMark Fake %s", VENDOR_DEVICE);
  }));
}

FAKE_API int CALL(GetDeviceProperties)(void* properties, int device) {
  return told(guarded([&] {
    context_of(device);
    require(properties != nullptr, kInvalidValue);
    auto* filled = static_cast<Properties*>(properties);
    std::snprintf(filled->name, sizeof(filled->name), "CCLMark Fake %s", VENDOR_DEVICE);
    filled->memory_bytes = Driver::instance().memory_bytes();
  }));
}

FAKE_API int CALL(DeviceGetPCIBusId)(char* id, int bytes, int device) {
  return told(guarded([&] {
    Driver::instance().initialize();
    require_ok(cuDeviceGetPCIBusId(id, bytes, device));
  }));
}

FAKE_API int CALL(DeviceGetAttribute)(int* value, int attribute, int device) {
  return told(guarded([&] {
    context_of(device);
    require(value != nullptr, kInvalidValue);
    if (attribute == VENDOR_CACHE_ATTRIBUTE) {
      *value = kCacheBytes;
    } else if (attribute == VENDOR_PROCESSORS_ATTRIBUTE) {
      *value = kMultiprocessors;
#ifdef VENDOR_COMPUTE_ATTRIBUTES
    } else if (attribute == kComputeMajor) {
      *value = Driver::instance().architecture() / 10;
    } else if (attribute == kComputeMinor) {
      *value = Driver::instance().architecture() % 10;
#endif
    } else {
      throw Refusal{kInvalidValue};
    }
  }));
}

FAKE_API int CALL(MemGetInfo)(size_t* free, size_t* total) {
  return told(cuMemGetInfo_v2(free, total));
}

FAKE_API int CALL(Malloc)(void** memory, size_t bytes) {
  return told(cuMemAlloc_v2(reinterpret_cast<CUdeviceptr*>(memory), bytes));
}

FAKE_API int CALL(Free)(void* memory) {
  return told(memory == nullptr ? kSuccess : cuMemFree_v2(address(memory)));
}

FAKE_API int CALL(VENDOR_ALLOCATE_HOST)(void** memory, size_t bytes, unsigned flags) {
  return told((flags & ~kHostFlags) == 0 ? cuMemHostAlloc(memory, bytes, flags) : kInvalidValue);
}

FAKE_API int CALL(VENDOR_RELEASE_HOST)(void* memory) {
  return told(cuMemFreeHost(memory));
}

FAKE_API int CALL(HostRegister)(void* memory, size_t bytes, unsigned flags) {
  return told(cuMemHostRegister_v2(memory, bytes, flags));
}

FAKE_API int CALL(HostUnregister)(void* memory) {
  return told(cuMemHostUnregister(memory));
}

FAKE_API int CALL(HostGetDevicePointer)(void** found, void* memory, unsigned flags) {
  return told(cuMemHostGetDevicePointer_v2(reinterpret_cast<CUdeviceptr*>(found), memory, flags));
}

FAKE_API int CALL(Memcpy)(void* to, const void* from, size_t bytes, int direction) {
  return told(guarded([&] {
    require_direction(to, from, bytes, direction);
    require(direction == kToDevice || direction == kToHost, kNotSupported);
    require_ok(direction == kToDevice ? cuMemcpyHtoD_v2(address(to), from, bytes)
                                      : cuMemcpyDtoH_v2(to, address(from), bytes));
  }));
}

FAKE_API int CALL(MemcpyAsync)(void* to, const void* from, size_t bytes, int direction,
                               void* stream) {
  return told(guarded([&] {
    require_direction(to, from, bytes, direction);
    require_ok(cuMemcpyAsync(address(to), address(from), bytes, stream));
  }));
}

FAKE_API int CALL(MemcpyPeerAsync)(void* to, int to_device, const void* from, int from_device,
                                   size_t bytes, void* stream) {
  return told(guarded([&] {
    require_ok(cuMemcpyPeerAsync(address(to), context_of(to_device), address(from),
                                 context_of(from_device), bytes, stream));
  }));
}

FAKE_API int CALL(MemsetAsync)(void* to, int value, size_t bytes, void* stream) {
  return told(cuMemsetD8Async(address(to), static_cast<unsigned char>(value), bytes, stream));
}

FAKE_API int CALL(StreamCreateWithFlags)(void** stream, unsigned flags) {
  return told(cuStreamCreate(stream, flags));
}

FAKE_API int CALL(StreamDestroy)(void* stream) {
  return told(cuStreamDestroy_v2(stream));
}

FAKE_API int CALL(StreamQuery)(void* stream) {
  return told(cuStreamQuery(stream));
}

FAKE_API int CALL(StreamWaitEvent)(void* stream, void* event, unsigned flags) {
  return told(cuStreamWaitEvent(stream, event, flags));
}

FAKE_API int CALL(EventCreateWithFlags)(void** event, unsigned flags) {
  return told(cuEventCreate(event, flags));
}

FAKE_API int CALL(EventDestroy)(void* event) {
  return told(cuEventDestroy_v2(event));
}

FAKE_API int CALL(EventRecord)(void* event, void* stream) {
  return told(cuEventRecord(event, stream));
}

#ifndef VENDOR_WITHOUT_EVENT_TIMES
FAKE_API int CALL(EventElapsedTime)(float* elapsed_ms, void* start, void* end) {
  return told(cuEventElapsedTime(elapsed_ms, start, end));
}
#endif

FAKE_API int CALL(DeviceCanAccessPeer)(int* possible, int device, int peer) {
  return told(guarded([&] {
    Driver::instance().initialize();
    require_ok(cuDeviceCanAccessPeer(possible, device, peer));
  }));
}

FAKE_API int CALL(DeviceEnablePeerAccess)(int peer, unsigned flags) {
  return told(guarded([&] { require_ok(cuCtxEnablePeerAccess(context_of(peer), flags)); }));
}

FAKE_API int CALL(DeviceDisablePeerAccess)(int peer) {
  return told(guarded([&] { require_ok(cuCtxDisablePeerAccess(context_of(peer))); }));
}

FAKE_API int CALL(IpcGetMemHandle)(OpaqueHandle* handle, void* memory) {
  return told(cuIpcGetMemHandle(handle, address(memory)));
}

FAKE_API int CALL(IpcOpenMemHandle)(void** memory, OpaqueHandle handle, unsigned flags) {
  if (flags != VENDOR_IPC_FLAGS) return told(kInvalidValue);
  return told(cuIpcOpenMemHandle_v2(reinterpret_cast<CUdeviceptr*>(memory), handle, 1));
}

FAKE_API int CALL(IpcCloseMemHandle)(void* memory) {
  return told(cuIpcCloseMemHandle(address(memory)));
}

#ifdef VENDOR_WAITS_FOR_VALUES
FAKE_API int CALL(StreamWaitValue32)(void* stream, void* word, uint32_t value, unsigned condition,
                                     uint32_t mask) {
  if (mask != 0xffffffff) return told(kNotSupported);
  return told(cuStreamWaitValue32_v2(stream, address(word), value, condition));
}

FAKE_API int CALL(StreamWriteValue32)(void* stream, void* word, uint32_t value, unsigned flags) {
  return told(cuStreamWriteValue32_v2(stream, address(word), value, flags));
}
#endif

FAKE_API int CALL(LaunchHostFunc)(void* stream, void (*function)(void*), void* argument) {
  return told(cuLaunchHostFunc(stream, function, argument));
}

FAKE_API int CALL(StreamBeginCapture)(void* stream, int mode) {
  return told(cuStreamBeginCapture_v2(stream, mode));
}

FAKE_API int CALL(StreamEndCapture)(void* stream, void** graph) {
  return told(cuStreamEndCapture(stream, graph));
}

#ifndef VENDOR_WITHOUT_GRAPHS
FAKE_API int CALL(GraphInstantiateWithFlags)(void** executable, void* graph,
                                             unsigned long long flags) {
  return told(cuGraphInstantiateWithFlags(executable, graph, flags));
}
#endif

FAKE_API int CALL(GraphLaunch)(void* executable, void* stream) {
  return told(cuGraphLaunch(executable, stream));
}

FAKE_API int CALL(GraphDestroy)(void* graph) {
  return told(cuGraphDestroy(graph));
}

FAKE_API int CALL(GraphExecDestroy)(void* executable) {
  return told(cuGraphExecDestroy(executable));
}

}  // namespace fake_cuda
