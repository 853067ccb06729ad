// Fake CNDev of Cambricon: three devices in a row, two MLU-Links between neighbours.
#include <cstdint>
#include <cstdio>

namespace {
constexpr int kSuccess = 0;
constexpr int kInvalid = 5;
constexpr int kOldVersion = 8;
constexpr int kDevices = 3;
constexpr int kPorts = 4;  // two to the device before, two to the device after
bool opened = false;

struct Uuid {
  int version;
  std::uint8_t uuid[37];
  std::uint64_t board;
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
  std::snprintf(reinterpret_cast<char*>(uuid), sizeof uuid, "%08d-1234-5678-9abc-def012345678",
                device);
}
}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int cndevInit(int reserved) {
  opened = reserved == 0;
  return opened ? kSuccess : kInvalid;
}

EXPORTED int cndevGetUUID(Uuid* found, int device) {
  if (const int why = refusal(device >= 0 && device < kDevices, found->version)) return why;
  name(found->uuid, device);
  return kSuccess;
}

EXPORTED int cndevGetMLULinkPortNumber(int device) {
  return opened && device >= 0 && device < kDevices ? kPorts : -1;
}

EXPORTED int cndevGetMLULinkSpeedInfo(Speed* found, int device, int port) {
  const bool known = device >= 0 && device < kDevices && port >= 0 && port < kPorts;
  if (const int why = refusal(known, found->version)) return why;
  found->value = 25.0F;
  return kSuccess;
}

EXPORTED int cndevGetMLULinkRemoteInfo(Remote* found, int device, int port) {
  const int peer = device + (port < 2 ? -1 : 1);
  if (const int why = refusal(peer >= 0 && peer < kDevices, found->version)) return why;
  const int version = found->version;
  *found = Remote{};
  found->version = version;
  name(found->uuid, peer);
  return kSuccess;
}
