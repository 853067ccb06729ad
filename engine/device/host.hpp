#pragma once

#include <sys/types.h>

#include <cstddef>

namespace cclmark {

/// Memory of the host device. An anonymous file backs it, so that other ranks on this host can map
/// it: the `shm` library thereby copies data only once. The memory is freed when the last process
/// that maps it exits, for any reason.
struct HostAllocation {
  std::byte* base = nullptr;
  size_t bytes = 0;
  int fd = -1;
  unsigned serial = 0;  ///< unique in a process
};

/// The allocation of this process's host devices that contains `memory`. Raises Error if there is
/// none.
HostAllocation find_host_allocation(const void* memory);

/// Maps memory of a host device of another process, or of this process a second time. The caller
/// unmaps it with munmap(). Raises Error.
void* map_host_memory(pid_t pid, int fd, size_t bytes);

}  // namespace cclmark
