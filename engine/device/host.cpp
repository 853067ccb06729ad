#include "device/host.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/waiting.hpp"
#include "device/device.hpp"

namespace cclmark {

struct Kernel {
  const char* name;
  void (*run)(const void* arguments);
};

namespace {

constexpr unsigned kLooksPerYield = 256;

/// The functions that the kernels require of a host.
unsigned long long cclmark_now_ns() {
  return static_cast<unsigned long long>(
      std::chrono::nanoseconds(Clock::now().time_since_epoch()).count());
}
void cclmark_relax() {
  relax_cpu();
  static thread_local unsigned looks = 0;
  if (++looks % kLooksPerYield == 0) sched_yield();  // the one awaited may share this processor
}

#include "kernels/dialect.cu"
// before all of them
#include "kernels/compute.cu"
#include "kernels/pattern.cu"
#include "kernels/reduce.cu"
#include "kernels/transfer.cu"

template <auto kernel, typename Arguments>
constexpr Kernel entry(const char* name) {
  return {name, [](const void* arguments) { kernel(*static_cast<const Arguments*>(arguments)); }};
}

const Kernel kKernels[] = {
    entry<cclmark_fill, PatternArguments>("cclmark_fill"),
    entry<cclmark_verify, PatternArguments>("cclmark_verify"),
    entry<cclmark_tile, TiledArguments>("cclmark_tile"),
    entry<cclmark_check_tiles, TiledArguments>("cclmark_check_tiles"),
    entry<cclmark_fill_triad, TriadArguments>("cclmark_fill_triad"),
    entry<cclmark_triad, TriadArguments>("cclmark_triad"),
    entry<cclmark_check_triad, TriadArguments>("cclmark_check_triad"),
    entry<cclmark_reduce, ReduceArguments>("cclmark_reduce"),
    entry<cclmark_take, ReduceArguments>("cclmark_take"),
    entry<cclmark_copy_cache, CopyArguments>("cclmark_copy_cache"),
    entry<cclmark_copy_nc, CopyArguments>("cclmark_copy_nc"),
    entry<cclmark_copy_bulk, CopyArguments>("cclmark_copy_bulk"),
    entry<cclmark_delay, DelayArguments>("cclmark_delay"),
    entry<cclmark_chase, ChaseArguments>("cclmark_chase"),
    entry<cclmark_ping_pong, PingPongArguments>("cclmark_ping_pong"),
};

/// Every allocation of this process by base address.
struct Allocations {
  std::mutex lock;
  std::map<const std::byte*, HostAllocation> by_base;
  unsigned next_serial = 1;
};

Allocations& allocations() {
  static Allocations all;
  return all;
}

/// A number of /proc/meminfo or the like, in bytes; 0 when it is not there.
size_t read_kib(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  size_t kib = 0;
  while (file >> word) {
    if (word == key && file >> kib) return kib * 1024;
  }
  return 0;
}

/// The memory that a container's control group leaves, the largest number without a limit.
size_t free_in_container() {
  size_t limit = 0, used = 0;
  std::ifstream("/sys/fs/cgroup/memory.max") >> limit;
  std::ifstream("/sys/fs/cgroup/memory.current") >> used;
  return limit > used ? limit - used : std::numeric_limits<size_t>::max();
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("model name", 0) != 0) continue;
    size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "host";
}

/// From sysfs: what sysconf says of virtual machines can be ten times too much.
size_t last_level_cache_bytes() {
  size_t kib = 0;
  for (const char* index : {"3", "2"}) {
    std::ifstream file(std::string("/sys/devices/system/cpu/cpu0/cache/index") + index + "/size");
    if (file >> kib && kib > 0) return kib * 1024;
  }
  return size_t{32} << 20;
}

class HostDevice final : public Device {
 public:
  explicit HostDevice(int index) {
    info_.runtime = "host";
    info_.index = index;
    info_.name = processor_name();
    info_.memory_bytes = read_kib("/proc/meminfo", "MemTotal:");
    info_.cache_bytes = last_level_cache_bytes();
  }

  const DeviceInfo& info() const override { return info_; }

  size_t free_memory_bytes() const override {
    return std::min(read_kib("/proc/meminfo", "MemAvailable:"), free_in_container());
  }

  void activate() override {}

  void* allocate(size_t bytes) override {
    HostAllocation allocation;
    allocation.bytes = std::max<size_t>(bytes, 1);
    allocation.fd = memfd_create("cclmark-buffer", MFD_CLOEXEC);
    if (allocation.fd < 0) {
      throw Error(Error::describe("memfd_create", errno, std::strerror(errno)));
    }
    void* memory = MAP_FAILED;
    if (ftruncate(allocation.fd, static_cast<off_t>(allocation.bytes)) == 0) {
      memory =
          mmap(nullptr, allocation.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, allocation.fd, 0);
    }
    if (memory == MAP_FAILED) {
      int code = errno;
      close(allocation.fd);
      throw OutOfMemoryError(Error::describe(
          "mapping " + std::to_string(bytes) + " bytes of memory", code, std::strerror(code)));
    }
    madvise(memory, allocation.bytes, MADV_HUGEPAGE);
    allocation.base = static_cast<std::byte*>(memory);
    Allocations& all = allocations();
    std::lock_guard guard(all.lock);
    allocation.serial = all.next_serial++;
    all.by_base[allocation.base] = allocation;
    return memory;
  }

  void release(void* memory) noexcept override {
    Allocations& all = allocations();
    std::lock_guard guard(all.lock);
    auto entry = all.by_base.find(static_cast<std::byte*>(memory));
    if (entry == all.by_base.end()) return;
    munmap(entry->second.base, entry->second.bytes);
    close(entry->second.fd);
    all.by_base.erase(entry);
  }

  void copy_to_host(void* host, const void* device, size_t bytes) override {
    std::memcpy(host, device, bytes);
  }
  void copy_from_host(void* device, const void* host, size_t bytes) override {
    std::memcpy(device, host, bytes);
  }
  void copy_async(void* to, const void* from, size_t bytes, void*) override {
    std::memmove(to, from, bytes);
  }
  void fill_bytes(void* memory, int byte, size_t bytes, void*) override {
    std::memset(memory, byte, bytes);
  }

  void* allocate_pinned(size_t bytes) override { return allocate(bytes); }
  void release_pinned(void* memory) noexcept override { release(memory); }

  bool reaches(const Device&) const override { return true; }
  void open_access(Device&) override {}
  void close_access(Device&) override {
    throw UnsupportedError("peer access between host devices cannot be disabled");
  }
  void copy_between(void* to, Device&, const void* from, Device&, size_t bytes,
                    void* stream) override {
    copy_async(to, from, bytes, stream);
  }

  void* allocate_shareable(size_t bytes) override { return allocate(bytes); }
  SharedMemory share(void* memory) override {
    HostAllocation allocation = find_host_allocation(memory);
    return {std::bit_cast<MemoryHandle>(SharedPlace{getpid(), allocation.fd, allocation.bytes, {}}),
            -1};
  }
  void* open_shared(const SharedMemory& shared) override {
    auto place = std::bit_cast<SharedPlace>(shared.handle);
    auto mapping = map_host_memory(place.pid, place.fd, place.bytes);
    std::lock_guard guard(allocations().lock);
    opened_[mapping] = place.bytes;
    return mapping;
  }
  void close_shared(void* memory) noexcept override {
    std::lock_guard guard(allocations().lock);
    auto entry = opened_.find(memory);
    if (entry == opened_.end()) return;
    munmap(memory, entry->second);
    opened_.erase(entry);
  }

  bool synchronous() const override { return true; }
  void* create_stream() override { return this; }
  void destroy_stream(void*) noexcept override {}
  bool idle(void*) override { return true; }

  void* create_event() override { return new Clock::time_point(); }
  void destroy_event(void* event) noexcept override {
    delete static_cast<Clock::time_point*>(event);
  }
  void record(void* event, void*) override {
    *static_cast<Clock::time_point*>(event) = Clock::now();
  }
  double elapsed_s(void* start, void* end) override {
    return seconds_between(*static_cast<Clock::time_point*>(start),
                           *static_cast<Clock::time_point*>(end));
  }

  std::string no_graphs() const override {
    return "host devices do not support graphs: use --timing throughput or blocking";
  }
  void begin_capture(void*) override { throw UnsupportedError(no_graphs()); }
  void* end_capture(void*) override { return nullptr; }
  void abandon_capture(void*) noexcept override {}
  void launch_graph(void*, void*) override {}
  void destroy_graph(void*) noexcept override {}

  const Kernel& kernel(const char* name) override {
    for (const Kernel& kernel : kKernels) {
      if (std::strcmp(kernel.name, name) == 0) return kernel;
    }
    throw Error(std::string("unknown kernel ") + name);
  }

  void launch(const Kernel& kernel, void* arguments, size_t, void*) override {
    kernel.run(arguments);
  }
  void launch_grid(const Kernel& kernel, void* arguments, const Grid&, void*) override {
    kernel.run(arguments);
  }
  void wait_for_flag(const uint32_t*, uint32_t, void*) override {
    throw UnsupportedError(
        "a host device works inside the call: its streams cannot wait for a flag");
  }

 private:
  /// The content of a handle.
  struct SharedPlace {
    pid_t pid;
    int fd;
    size_t bytes;
    std::array<std::byte, sizeof(MemoryHandle) - sizeof(pid_t) - sizeof(int) - sizeof(size_t)> rest;
  };
  static_assert(sizeof(SharedPlace) == sizeof(MemoryHandle));

  std::map<void*, size_t> opened_;
  DeviceInfo info_;
};

}  // namespace

HostAllocation find_host_allocation(const void* memory) {
  auto address = static_cast<const std::byte*>(memory);
  Allocations& all = allocations();
  std::lock_guard guard(all.lock);
  auto entry = all.by_base.upper_bound(address);
  if (entry != all.by_base.begin()) {
    const HostAllocation& allocation = std::prev(entry)->second;
    if (address < allocation.base + allocation.bytes) return allocation;
  }
  throw Error("this memory was not allocated by the host device");
}

void* map_host_memory(pid_t pid, int fd, size_t bytes) {
  std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  int own = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (own < 0) {
    int code = errno;
    std::string advice;
    if (code == EACCES || code == EPERM) {
      advice = ". Ranks on host devices must have one user and one user namespace";
    } else if (access("/proc/self", F_OK) == 0) {
      // Without /proc the launcher reports what to mount.
      advice = ". Ranks on host devices must run on one host and in one PID namespace";
    }
    throw Error(
        Error::describe("opening another rank's memory at " + path, code, std::strerror(code)) +
        advice);
  }
  // Populated at once: page faults must not fall into the time of the first operations.
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, own, 0);
  int code = errno;
  close(own);
  if (memory == MAP_FAILED) {
    throw Error(Error::describe("mapping another rank's memory", code, std::strerror(code)));
  }
  return memory;
}

int host_device_count() {
  return static_cast<int>(std::thread::hardware_concurrency());
}

std::unique_ptr<Device> open_host_device(int index) {
  return std::make_unique<HostDevice>(index);
}

}  // namespace cclmark
