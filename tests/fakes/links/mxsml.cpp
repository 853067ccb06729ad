// Fake mxSML of MetaX: eight devices, two groups of four. Links 0 and 1 of a device lead to the
// next one of its group, link 2 to the one after that; the others have no device at their end.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {
constexpr unsigned kDevices = 8;
constexpr unsigned kGroup = 4;
constexpr unsigned kLinks = 7;
constexpr int kSuccess = 0;
constexpr int kInvalid = 3;
constexpr int kNoDevice = 12;
constexpr int kTooSmall = 15;
bool opened = false;

struct Link {
  float speed;
  unsigned width;
};
struct Remote {
  int device;
  char bdf[32];
};

unsigned neighbour(unsigned device, unsigned steps) {
  return device / kGroup * kGroup + (device % kGroup + steps) % kGroup;
}
}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// CCLMARK_FAKE_LINKS: crash, exit or hang, as a library beside a broken driver.
EXPORTED int mxSmlInit() {
  const char* fault = std::getenv("CCLMARK_FAKE_LINKS");
  const std::string_view how = fault == nullptr ? "" : fault;
  if (how == "crash") std::abort();
  if (how == "exit") std::exit(0);
  while (how == "hang") pause();
  opened = true;
  return kSuccess;
}

EXPORTED int mxSmlGetMetaXLinkInfo_v2(unsigned device, unsigned* size, Link* links) {
  if (!opened || device >= kDevices || size == nullptr || links == nullptr) return kInvalid;
  if (*size < kLinks) {
    *size = kLinks;
    return kTooSmall;
  }
  *size = kLinks;
  for (unsigned link = 0; link < kLinks; ++link) links[link] = {32.0F, 16};
  return kSuccess;
}

EXPORTED int mxSmlGetMetaXLinkRemoteInfo(unsigned device, unsigned link, Remote* remote) {
  if (!opened || device >= kDevices || link >= kLinks || remote == nullptr) return kInvalid;
  if (link > 4) return kNoDevice;
  remote->device = static_cast<int>(neighbour(device, link < 2 ? 1 : link < 4 ? 3 : 2));
  std::snprintf(remote->bdf, sizeof remote->bdf, "0000:%02x:00.0", remote->device);
  return kSuccess;
}
