#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <utility>

#include "nccl/runtime.hpp"

namespace fake_nccl {

/// Other processes' device memory, mapped when first needed and kept.
class PeerMemory {
 public:
  PeerMemory() = default;
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  /// The memory at `place` of process `pid`. Raises Failure when it cannot be mapped.
  std::byte* at(pid_t pid, const Place& place);

 private:
  struct Mapping {
    std::byte* memory;
    size_t bytes;
  };
  std::map<std::pair<pid_t, unsigned>, Mapping> mappings_;  ///< by process and serial
};

}  // namespace fake_nccl
