#pragma once

#include <cstdint>

namespace fake_cuda {

/// What stands for a cubin: this header, then a shared object for the host.
struct ImageHeader {
  char magic[16];
  uint64_t object_bytes;
  int32_t architecture;  ///< 0: any
  int32_t reserved;
};

constexpr char kImageMagic[16] =
    "\x7f"
    "FAKE-CUBIN-01";

}  // namespace fake_cuda
