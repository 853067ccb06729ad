#include "nccl/peer_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "nccl/abi.hpp"

namespace fake_nccl {

PeerMemory::~PeerMemory() {
  for (const auto& [key, mapping] : mappings_) munmap(mapping.memory, mapping.bytes);
}

std::byte* PeerMemory::at(pid_t pid, const Place& place) {
  auto known = mappings_.find({pid, place.serial});
  if (known != mappings_.end()) return known->second.memory + place.offset;

  std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(place.fd);
  int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  require(fd >= 0, kRemoteError, "a peer's memory is gone");
  struct stat status{};
  void* memory = MAP_FAILED;
  if (fstat(fd, &status) == 0 && static_cast<size_t>(status.st_size) == place.file_bytes) {
    memory = mmap(nullptr, place.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  close(fd);
  require(memory != MAP_FAILED, kRemoteError, "a peer's memory cannot be mapped");
  mappings_[{pid, place.serial}] = {static_cast<std::byte*>(memory), place.file_bytes};
  return static_cast<std::byte*>(memory) + place.offset;
}

}  // namespace fake_nccl
