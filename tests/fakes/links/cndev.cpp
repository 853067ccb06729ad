// Fake CNDev of Cambricon: three devices in a row, two MLU-Links between neighbours.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {
constexpr int kSuccess = 0;
constexpr int kInvalid = 5;
constexpr int kOldVersion = 3;
constexpr int kDevices = 3;
constexpr int kPorts = 4;   // two to the device before, two to the device after
constexpr int kFirst = 16;  // the handle of device 0
bool opened = false;

struct Uuid {
  int version;
  std::uint8_t uuid[37];
  std::uint64_t board;
};
struct State {
  int version;
  int active, serdes, cable;
};
struct Speed {
  int version;
  float value;
  int format;
};
struct Remote {
  int version;
  std::uint64_t module, board;
  std::uint32_t slot, port;
  std::uint8_t address[16];
  std::uint8_t uuid[37];
  std::uint32_t address_version, address_valid;
  std::int32_t kind;
  std::uint64_t board_uuid;
  std::uint8_t mac[6];
  char name[256];
};

int refusal(bool known, int version) {
  return !opened || !known ? kInvalid : version < 5 ? kOldVersion : kSuccess;
}
void name(std::uint8_t (&uuid)[37], int device) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%08d-1234-5678-9abc-def012345678", device);
  std::memcpy(uuid, text.data(), sizeof uuid - 1);
  uuid[36] = 0;
}
}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int cndevInit(int reserved) {
  opened = reserved == 0;
  return opened ? kSuccess : kInvalid;
}

// Handles differ from indices: index + 16.
EXPORTED int cndevGetDeviceHandleByIndex(int index, int* device) {
  if (!opened || index < 0 || index >= kDevices || device == nullptr) return kInvalid;
  *device = index + kFirst;
  return kSuccess;
}

EXPORTED int cndevGetMLULinkStatus(State* found, int handle, int port) {
  const int device = handle - kFirst;
  const bool known = device >= 0 && device < kDevices && port >= 0 && port < kPorts;
  if (const int why = refusal(known, found->version)) return why;
  found->active = 1;
  return kSuccess;
}

EXPORTED int cndevGetUUID(Uuid* found, int handle) {
  const int device = handle - kFirst;
  if (const int why = refusal(device >= 0 && device < kDevices, found->version)) return why;
  name(found->uuid, device);
  return kSuccess;
}

EXPORTED int cndevGetMLULinkPortNumber(int handle) {
  const int device = handle - kFirst;
  return opened && device >= 0 && device < kDevices ? kPorts : -1;
}

EXPORTED int cndevGetMLULinkSpeedInfo(Speed* found, int handle, int port) {
  const int device = handle - kFirst;
  const bool known = device >= 0 && device < kDevices && port >= 0 && port < kPorts;
  if (const int why = refusal(known, found->version)) return why;
  found->value = 25.0F;
  return kSuccess;
}

EXPORTED int cndevGetMLULinkRemoteInfo(Remote* found, int handle, int port) {
  const int device = handle - kFirst;
  const int peer = device + (port < 2 ? -1 : 1);
  if (const int why = refusal(peer >= 0 && peer < kDevices, found->version)) return why;
  const int version = found->version;
  *found = Remote{};
  found->version = version;
  name(found->uuid, peer);
  return kSuccess;
}
