// Initialisation, devices and contexts.

#include <cstdio>
#include <cstring>

#include "common/export.hpp"
#include "cuda/driver.hpp"
#include "cuda/fake_cuda.h"

namespace fake_cuda {
namespace {

constexpr int kDriverVersion = 13000;
constexpr char kDeviceName[] = "CCLMark Fake GPU";
/// Few and small: buffers are sized by the cache, and the grid runs on one thread.
constexpr int kMultiprocessors = 8;
constexpr int kCacheBytes = 1 << 20;

enum Attribute : int {
  kMultiprocessorCount = 16,
  kL2CacheBytes = 38,
  kUnifiedAddressing = 41,
  kComputeMajor = 75,
  kComputeMinor = 76,
  kMostSharedBytesPerBlock = 97,
  kVirtualMemoryManagement = 102,
  kFileDescriptorHandles = 103,
  kFabricHandles = 128,
};

int attribute_value(int attribute) {
  switch (attribute) {
    case kMultiprocessorCount:
      return kMultiprocessors;
    case kL2CacheBytes:
      return kCacheBytes;
    case kUnifiedAddressing:
    case kVirtualMemoryManagement:
    case kFileDescriptorHandles:
      return 1;
    case kFabricHandles:
      return fabric_directory().empty() ? 0 : 1;
    case kMostSharedBytesPerBlock:
      return kMostSharedBytes;
    case kComputeMajor:
      return Driver::instance().architecture() / 10;
    case kComputeMinor:
      return Driver::instance().architecture() % 10;
    default:
      throw Refusal{kInvalidValue};
  }
}

template <typename T>
void store(T* target, T value) {
  require(target != nullptr, kInvalidValue);
  *target = value;
}

}  // namespace

FAKE_API int cuInit(unsigned flags) {
  return guarded([&] {
    require(flags == 0, kInvalidValue);
    Driver::instance().initialize();
  });
}

FAKE_API int cuDriverGetVersion(int* version) {
  return guarded([&] { store(version, kDriverVersion); });
}

FAKE_API int cuGetErrorString(int status, const char** text) {
  return guarded([&] {
    store(text, describe(status));
    require(*text != nullptr, kInvalidValue);
  });
}

FAKE_API int cuDeviceGetCount(int* count) {
  return guarded([&] {
    Driver::instance().require_initialized();
    store(count, Driver::instance().device_count());
  });
}

FAKE_API int cuDeviceGet(int* device, int ordinal) {
  return guarded([&] {
    Driver::instance().require_device(ordinal);
    store(device, ordinal);
  });
}

FAKE_API int cuDeviceGetName(char* name, int bytes, int device) {
  return guarded([&] {
    Driver::instance().require_device(device);
    require(name != nullptr && bytes > 0, kInvalidValue);
    std::snprintf(name, static_cast<size_t>(bytes), "%s", kDeviceName);
  });
}

FAKE_API int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  return guarded([&] {
    Driver::instance().require_device(device);
    store(bytes, Driver::instance().memory_bytes());
  });
}

FAKE_API int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return guarded([&] {
    Driver::instance().require_device(device);
    store(value, attribute_value(attribute));
  });
}

FAKE_API int cuDeviceGetPCIBusId(char* id, int bytes, int device) {
  return guarded([&] {
    Driver::instance().require_device(device);
    char text[32];
    int length = std::snprintf(text, sizeof(text), "0000:%02x:00.0", device + 1);
    require(id != nullptr && bytes > length, kInvalidValue);
    std::memcpy(id, text, static_cast<size_t>(length) + 1);
  });
}

FAKE_API int cuDevicePrimaryCtxRetain(void** context, int device) {
  return guarded([&] {
    require(context != nullptr, kInvalidValue);
    *context = Driver::instance().retain(device);
  });
}

FAKE_API int cuDevicePrimaryCtxRelease_v2(int device) {
  return guarded([&] { Driver::instance().release(device); });
}

FAKE_API int cuCtxGetDevice(int* device) {
  return guarded([&] { store(device, Driver::instance().current()->device); });
}

FAKE_API int cuCtxSetCurrent(void* context) {
  return guarded([&] { Driver::instance().set_current(context); });
}

}  // namespace fake_cuda
