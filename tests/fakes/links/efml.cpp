// Fake EFML of Enflame: four devices in a ring, two ports to each neighbour and one without a peer.
#include <cstdint>
#include <cstring>

namespace {
constexpr int kSuccess = 0;
constexpr int kInvalid = 2;
constexpr std::uint32_t kDevices = 4;
constexpr std::uint32_t kPorts = 5;
constexpr std::uint32_t kFirstBus = 0x10;
bool opened = false;

struct Port {
  std::uint32_t connected;
  char uuid[16];
  std::uint32_t vendor, device;
  std::uint32_t domain, bus, slot, function;
  std::uint32_t port, type;
  std::uint32_t remote_card;
  char remote_uuid[16];
  std::uint32_t remote_vendor, remote_device;
  std::uint32_t remote_domain, remote_bus, remote_slot, remote_function;
  std::uint32_t remote_port, remote_type;
};
struct Link {
  int speed, most_speed, width, most_width;
};
}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int EfmlInit(bool no_driver) {
  opened = !no_driver;
  return opened ? kSuccess : kInvalid;
}

EXPORTED int EfmlGetDevCount(std::uint32_t* number) {
  *number = kDevices;
  return opened ? kSuccess : kInvalid;
}

EXPORTED int EfmlGetEslPortNum(std::uint32_t device, std::uint32_t* number) {
  if (!opened || device >= kDevices) return kInvalid;
  *number = kPorts;
  return kSuccess;
}

EXPORTED int EfmlGetEslPortInfo(std::uint32_t device, std::uint32_t port, Port* info) {
  if (!opened || device >= kDevices || port >= kPorts) return kInvalid;
  std::memset(info, 0, sizeof *info);
  info->connected = port < 4;
  info->bus = kFirstBus + device;
  info->remote_bus = kFirstBus + (device + (port < 2 ? 1 : kDevices - 1)) % kDevices;
  return kSuccess;
}

EXPORTED int EfmlGetEslLinkInfo(std::uint32_t device, std::uint32_t port, Link* info) {
  if (!opened || device >= kDevices || port >= kPorts) return kInvalid;
  *info = {0x15, 0x15, 16, 16};  // 25 GT/s
  return kSuccess;
}
