#pragma once

#include <sys/types.h>

#include <cstddef>

namespace cclmark {

/// Memory of the host device. It is backed by an anonymous file, so that other ranks of this host
/// can map it too (that is how the `shm` library moves data without copying it twice), and it is
/// gone with the last process that maps it, however that ends.
struct HostAllocation {
  std::byte* base = nullptr;
  size_t bytes = 0;
  int fd = -1;
  unsigned serial = 0;  ///< never used twice in a process
};

/// The allocation of this process's host devices that `memory` lies in. Raises Error if none.
HostAllocation find_host_allocation(const void* memory);

/// Maps memory of another process's host device, or of this one's again; munmap() ends that.
/// Raises Error.
void* map_host_memory(pid_t pid, int fd, size_t bytes);

}  // namespace cclmark
