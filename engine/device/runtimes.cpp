#include <array>

#include "device/device.hpp"
#include "device/vendor_runtime.hpp"

namespace cclmark {

namespace {

constexpr std::array<Runtime, 3> kRuntimes = {{
    {"cuda", cuda_device_count, open_cuda_device, cuda_devices_reach, cuda_devices_linked},
    {"acl", acl_device_count, open_acl_device, acl_devices_reach},
    {"host", host_device_count, open_host_device, [](int, int) { return true; }},
}};

}  // namespace

const Runtime* find_runtime(std::string_view name) {
  for (const Runtime& runtime : kRuntimes) {
    if (runtime.name == name) return &runtime;
  }
  for (const Runtime& runtime : vendor_runtimes()) {
    if (runtime.name == name) return &runtime;
  }
  return nullptr;
}

}  // namespace cclmark
