// In place of a fake runtime: memory of the host, and no streams. The engine's host devices keep
// their memory in files without names, by which other processes get at it.

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>

#include "nccl/abi.hpp"
#include "nccl/runtime.hpp"

namespace fake_nccl {
namespace {

/// A line of /proc/self/maps.
struct Mapping {
  uintptr_t first, end;
  size_t offset;
  unsigned long inode;
};

std::optional<Mapping> mapping_at(const void* memory) {
  auto wanted = reinterpret_cast<uintptr_t>(memory);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    Mapping mapping{};
    char rights[5];
    unsigned major = 0, minor = 0;
    int read = std::sscanf(line.c_str(), "%lx-%lx %4s %zx %x:%x %lu", &mapping.first, &mapping.end,
                           rights, &mapping.offset, &major, &minor, &mapping.inode);
    if (read == 7 && mapping.first <= wanted && wanted < mapping.end) return mapping;
  }
  return std::nullopt;
}

}  // namespace

const Runtime& Runtime::instance() {
  static const Runtime runtime;
  return runtime;
}

Runtime::Runtime()
    : library_(nullptr),
      enqueue_(nullptr),
      locate_(nullptr),
      current_device_(nullptr),
      architecture_(nullptr),
      allocate_(nullptr),
      release_(nullptr) {}

const char* Runtime::name() const {
  return "host";
}

/// Each process of a host is a device of its own.
int Runtime::current_device() const {
  return getpid();
}

int Runtime::architecture() const {
  return 0;
}

void* Runtime::allocate(size_t) const {
  throw Failure{kInvalidUsage, "the fake allocates no memory of the host"};
}

void Runtime::release(void*) const {
  throw Failure{kInvalidUsage, "the fake allocates no memory of the host"};
}

void* Runtime::find(const char*) const {
  throw Failure{kInvalidUsage, "there is no runtime of the host"};
}

Place Runtime::locate(const void* memory, size_t bytes) const {
  std::optional<Mapping> mapping = mapping_at(memory);
  auto address = reinterpret_cast<uintptr_t>(memory);
  require(mapping && mapping->inode != 0 && bytes <= mapping->end - address, kInvalidArgument,
          "the buffer is not, in all its bytes, memory of the engine's host devices");
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", gone)) {
    int fd = std::stoi(entry.path().filename().string());
    struct stat status{};
    if (fstat(fd, &status) != 0 || status.st_ino != mapping->inode) continue;
    return {fd, static_cast<unsigned>(mapping->inode), mapping->offset + (address - mapping->first),
            static_cast<size_t>(status.st_size)};
  }
  throw Failure{kInvalidArgument, "nobody keeps the file that the buffer lies in"};
}

/// There are no streams: the work is done before the call returns.
void Runtime::enqueue(void* stream, void (*fn)(void*), void* arg, void (*destroy)(void*)) const {
  require(stream == nullptr, kInvalidArgument, "memory of the host takes no stream");
  fn(arg);
  destroy(arg);
}

}  // namespace fake_nccl
