// Initialisation, versions, errors, devices and contexts.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "ascend/codes.hpp"
#include "common/export.hpp"
#include "cuda/driver.hpp"

namespace fake_ascend {
namespace {

using fake_cuda::Driver;

constexpr int64_t kAiCores = 20;
constexpr int64_t kCacheBytes = 1 << 20;
constexpr size_t kMostOfVersion = 128;
enum Attribute : int { kAiCoreCount = 101, kL2CacheBytes = 302 };

thread_local std::string recent_error;
thread_local void* current_context = nullptr;
std::atomic<bool> initialized{false};

const char* version_of(const std::string& package) {
  if (package == "hccl") return "8.2.RC1";
  if (package == "runtime") return "8.2.RC1.alpha";
  throw Failure{kInvalidFile, "there is no package " + package};
}

template <typename T>
void store(T* target, T value) {
  require(target != nullptr, "there is no place for the result");
  *target = value;
}

void require_initialized() {
  require(initialized, "aclInit was not called", kUninitialized);
}

}  // namespace

Code code_of(fake_cuda::Status status) {
  switch (status) {
    case fake_cuda::kSuccess:
      return kSuccess;
    case fake_cuda::kOutOfMemory:
      return kOutOfMemory;
    case fake_cuda::kNotInitialized:
      return kUninitialized;
    case fake_cuda::kNoDevice:
      return kDriverError;
    case fake_cuda::kInvalidDevice:
      return kInvalidDevice;
    case fake_cuda::kInvalidContext:
      return kNoContext;
    case fake_cuda::kInvalidHandle:
      return kInvalidHandle;
    case fake_cuda::kIllegalAddress:
      return kAicoreException;
    case fake_cuda::kPeerAccessUnsupported:
    case fake_cuda::kNotSupported:
      return kNotSupported;
    default:
      return kInvalidParameter;
  }
}

void set_recent_error(const std::string& text) {
  recent_error = text;
}

void fail_if_asked(const char* call) {
  const char* asked = std::getenv("CCLMARK_FAKE_ACL_FAIL");
  if (asked == nullptr || std::strcmp(asked, call) != 0) return;
  throw Failure{kDriverError, "EL0003: the driver\n\tcannot be reached (injected failure)"};
}

/// For the fake HCCL, which complains through the runtime as the real one does.
FAKE_API void cclmark_fake_complain(const char* text) {
  set_recent_error(text);
}

/// The text is given once, as by the real runtime.
FAKE_API const char* aclGetRecentErrMsg() {
  thread_local std::string handed_out;
  handed_out = std::exchange(recent_error, "");
  return handed_out.empty() ? nullptr : handed_out.c_str();
}

FAKE_API int aclInit(const char* configuration) {
  return guarded("aclInit", [&] {
    require(configuration == nullptr, "the fake reads no configuration");
    require(!initialized, "aclInit was called before", kRepeatedInitialization);
    Driver::instance().initialize();
    initialized = true;
  });
}

FAKE_API int aclsysGetVersionStr(char* package, char* version) {
  return guarded("aclsysGetVersionStr", [&] {
    require(package != nullptr && version != nullptr, "a pointer is null");
    std::snprintf(version, kMostOfVersion, "%s", version_of(package));
  });
}

FAKE_API int aclrtGetDeviceCount(uint32_t* count) {
  return guarded("aclrtGetDeviceCount", [&] {
    require_initialized();
    store(count, static_cast<uint32_t>(Driver::instance().device_count()));
  });
}

FAKE_API const char* aclrtGetSocName() {
  const char* name = std::getenv("CCLMARK_FAKE_ACL_SOC");
  return name != nullptr ? name : "Ascend910B3";
}

FAKE_API int aclrtGetDeviceInfo(uint32_t device, int attribute, int64_t* value) {
  return guarded("aclrtGetDeviceInfo", [&] {
    Driver::instance().require_device(static_cast<int>(device));
    require(attribute == kAiCoreCount || attribute == kL2CacheBytes, "unknown attribute");
    store(value, attribute == kAiCoreCount ? kAiCores : kCacheBytes);
  });
}

FAKE_API int aclrtSetDevice(int32_t device) {
  return guarded("aclrtSetDevice", [&] {
    require_initialized();
    void* context = Driver::instance().retain(device);
    Driver::instance().set_current(context);
    current_context = context;
  });
}

FAKE_API int aclrtResetDevice(int32_t device) {
  return guarded("aclrtResetDevice", [&] {
    require_initialized();
    Driver::instance().release(device);
  });
}

FAKE_API int aclrtGetCurrentContext(void** context) {
  return guarded("aclrtGetCurrentContext", [&] {
    Driver::instance().current();
    store(context, current_context);
  });
}

FAKE_API int aclrtSetCurrentContext(void* context) {
  return guarded("aclrtSetCurrentContext", [&] {
    require(context != nullptr, "the context is null");
    Driver::instance().set_current(context);
    current_context = context;
  });
}

FAKE_API int aclrtDeviceCanAccessPeer(int32_t* possible, int32_t device, int32_t peer) {
  return guarded("aclrtDeviceCanAccessPeer", [&] {
    Driver::instance().require_device(device);
    Driver::instance().require_device(peer);
    require(device != peer, "a device has no access to itself");
    store(possible, static_cast<int32_t>(Driver::instance().can_access_peer(device, peer)));
  });
}

FAKE_API int aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags) {
  return guarded("aclrtDeviceEnablePeerAccess", [&] {
    int device = Driver::instance().current()->device;
    Driver::instance().require_device(peer);
    require(flags == 0, "flags have to be 0", kNotSupported);
    require(device != peer, "a device has no access to itself");
    require(Driver::instance().can_access_peer(device, peer), "no access", kNotSupported);
  });
}

FAKE_API int aclrtDeviceDisablePeerAccess(int32_t peer) {
  return guarded("aclrtDeviceDisablePeerAccess", [&] {
    Driver::instance().current();
    Driver::instance().require_device(peer);
  });
}

}  // namespace fake_ascend
