// The few functions of NVML that count a device's NVLinks, as many as CCLMARK_FAKE_NVLINKS.

#include <cstdlib>
#include <cstring>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kSuccess = 0, kUninitialized = 1, kInvalidArgument = 2, kNotFound = 6;
constexpr unsigned kMostLinks = 18;

int users = 0;
int device;

unsigned long active_links() {
  const char* text = std::getenv("CCLMARK_FAKE_NVLINKS");
  return text != nullptr ? std::strtoul(text, nullptr, 10) : kMostLinks;
}

}  // namespace

FAKE_EXPORT int nvmlInit_v2() {
  ++users;
  return kSuccess;
}

FAKE_EXPORT int nvmlShutdown() {
  if (users == 0) return kUninitialized;
  --users;
  return kSuccess;
}

FAKE_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** handle) {
  if (users == 0) return kUninitialized;
  if (std::strncmp(bus_id, "0000:", 5) != 0) return kNotFound;
  *handle = &device;
  return kSuccess;
}

/// Links that are down are between those that are up.
FAKE_EXPORT int nvmlDeviceGetNvLinkState(void* handle, unsigned link, unsigned* is_active) {
  if (users == 0) return kUninitialized;
  if (handle != &device || link >= kMostLinks) return kInvalidArgument;
  *is_active = link >= kMostLinks - active_links() ? 1 : 0;
  return kSuccess;
}
