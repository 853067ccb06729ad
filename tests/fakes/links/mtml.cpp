// Fake MTML of Moore Threads: three devices, two MTLinks between devices 0 and 1, one between 1
// and 2.
#include <array>

namespace {
constexpr int kSuccess = 0;
constexpr int kInvalid = 2;
struct Library {
  bool open = false;
} library;
struct Device {
  unsigned index;
};
std::array<Device, 3> devices{{{0}, {1}, {2}}};

struct Spec {
  unsigned version;
  unsigned bandwidth;
  unsigned links;
  unsigned reserved[4];
};
}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int mtmlLibraryInit(Library** opened) {
  if (opened == nullptr) return kInvalid;
  library.open = true;
  *opened = &library;
  return kSuccess;
}

EXPORTED int mtmlLibraryInitDeviceByIndex(const Library* opened, unsigned index, Device** device) {
  if (opened != &library || device == nullptr || index >= devices.size()) return kInvalid;
  *device = &devices[index];
  return kSuccess;
}

EXPORTED int mtmlDeviceGetMtLinkSpec(const Device* device, Spec* spec) {
  if (device == nullptr || spec == nullptr) return kInvalid;
  *spec = {20000, 28, 14, {}};
  return kSuccess;
}

EXPORTED int mtmlDeviceCountMtLinkLayouts(const Device* one, const Device* other, unsigned* count) {
  if (one == nullptr || other == nullptr || one == other || count == nullptr) return kInvalid;
  const unsigned sum = one->index + other->index;
  *count = sum == 1 ? 2 : sum == 3 ? 1 : 0;
  return kSuccess;
}
