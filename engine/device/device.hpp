#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/memory_block.hpp"
#include "core/waiting.hpp"

namespace cclmark {

/// A runtime's description of one device.
struct DeviceInfo {
  std::string runtime;
  int index = 0;
  std::string name;
  std::string pci_bus_id;  ///< empty for the host
  int architecture = 0;  ///< CUDA: 10 × major + minor compute capability; 0 where it means nothing
  int multiprocessors = 0;
  size_t shared_bytes_per_block = 0;  ///< the most that a kernel may ask for
  size_t memory_bytes = 0;
  size_t cache_bytes = 0;  ///< last-level cache
  std::string driver_version;
  std::string library_path;  ///< of the runtime
};

/// A kernel of engine/kernels, ready to run on a device. Owned by the device.
struct Kernel;

/// How many threads run a kernel, and the shared memory of each block.
struct Grid {
  unsigned blocks = 1;
  unsigned threads = 1;
  unsigned shared_bytes = 0;
};

/// An opaque handle for another process to open this one's memory, of one size for all runtimes.
struct MemoryHandle {
  std::array<std::byte, 64> bytes{};
};

/// Memory as it is shared with other processes. A descriptor must be sent along; the receiver
/// closes it. `fabric_bytes`: its size if the handle is for other hosts too, else 0.
struct SharedMemory {
  MemoryHandle handle;
  int descriptor = -1;
  size_t fabric_bytes = 0;
};

/// One accelerator, or the host as one. One instance per process; calls come from the thread that
/// created it, or from one that called activate().
///
/// Streams, events and graphs are the runtime's own handles, so that they can be passed to a CCL.
/// Work on a stream runs in order. The host runs it inside the call.
///
/// Calls raise Error with the vendor's code and text, allocate raises OutOfMemoryError, and what a
/// runtime cannot do raises UnsupportedError.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  virtual size_t free_memory_bytes() const = 0;
  /// Makes the device current on the calling thread.
  virtual void activate() = 0;

  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  /// Memory of this device from another allocator, until disown(): for runtimes whose copies have
  /// to specify their direction.
  virtual void adopt(void*, size_t) {}
  virtual void disown(void*) noexcept {}
  /// Both copies return when the data has arrived.
  virtual void copy_to_host(void* host, const void* device, size_t bytes) = 0;
  virtual void copy_from_host(void* device, const void* host, size_t bytes) = 0;
  /// From and to memory of this device, of the host, or of a device that open_access() was called
  /// for.
  virtual void copy_async(void* to, const void* from, size_t bytes, void* stream) = 0;
  virtual void fill_bytes(void* memory, int byte, size_t bytes, void* stream) = 0;

  /// Host memory that the device reads and writes by itself (pinned).
  virtual void* allocate_pinned(size_t bytes) = 0;
  virtual void release_pinned(void* memory) noexcept = 0;
  /// Makes host memory of this process's pinned until unpin(), and returns where the device finds
  /// it. Raises UnsupportedError.
  virtual void* pin(void*, size_t) {
    throw UnsupportedError("this runtime cannot pin memory that is already allocated");
  }
  virtual void unpin(void*) noexcept {}

  /// Whether kernels and copies of this device may touch the memory of `peer`, once opened.
  virtual bool reaches(const Device& peer) const = 0;
  /// Both are idempotent. Raises UnsupportedError when the driver refuses.
  virtual void open_access(Device& peer) = 0;
  virtual void close_access(Device& peer) = 0;
  /// Between two devices of this process with or without access: without, the runtime stages the
  /// data through the host. Runs on a stream of this device.
  virtual void copy_between(void* to, Device& to_device, const void* from, Device& from_device,
                            size_t bytes, void* stream) = 0;

  /// Allocates physical memory that other processes can map, at an address that is reserved for it;
  /// release() frees it. Raises UnsupportedError.
  virtual void* allocate_mapped(size_t) {
    throw UnsupportedError("this runtime cannot map physical memory at reserved addresses (VMM)");
  }
  /// Allocates memory that another process can open; release() frees it. Raises UnsupportedError,
  /// with a remedy, if no kind of sharing is permitted here.
  virtual void* allocate_shareable(size_t bytes) = 0;
  /// The same for processes on other hosts (fabric handles).
  virtual void* allocate_for_hosts(size_t) {
    throw UnsupportedError("this runtime has no memory that other hosts can open (fabric handles)");
  }
  virtual SharedMemory share(void* memory) = 0;
  /// Opens what another process's device shared, with a descriptor of this process where there is
  /// one (it stays the caller's). Raises UnsupportedError likewise.
  virtual void* open_shared(const SharedMemory& shared) = 0;
  virtual void close_shared(void* memory) noexcept = 0;

  /// Whether work is done inside the call that requests it, as on the host.
  virtual bool synchronous() const = 0;
  virtual void* create_stream() = 0;
  virtual void destroy_stream(void* stream) noexcept = 0;
  /// Whether all work on the stream is done. Raises Error when some of it failed.
  virtual bool idle(void* stream) = 0;

  virtual void* create_event() = 0;
  virtual void destroy_event(void* event) noexcept = 0;
  virtual void record(void* event, void* stream) = 0;
  /// Makes the stream wait until the event recorded so far has completed.
  virtual void wait_for_event(void*, void*) {
    throw UnsupportedError("this runtime's streams cannot wait for events");
  }
  /// Seconds on the device's clock between two events that have completed.
  virtual double elapsed_s(void* start, void* end) = 0;

  /// Why no graph can be captured; empty where it can.
  virtual std::string no_graphs() const { return {}; }
  /// Raises UnsupportedError with that reason.
  virtual void begin_capture(void* stream) = 0;
  virtual void* end_capture(void* stream) = 0;
  /// Ends a capture whose calls failed.
  virtual void abandon_capture(void* stream) noexcept = 0;
  virtual void launch_graph(void* graph, void* stream) = 0;
  virtual void destroy_graph(void* graph) noexcept = 0;

  /// From now on data is filled and checked on the host, for this reason, even where kernels can be
  /// compiled.
  void check_on_host(std::string reason) { checked_on_host_ = std::move(reason); }
  const std::string& checked_on_host() const { return checked_on_host_; }

  /// Raises MissingError when nothing here can compile kernels for the device.
  virtual const Kernel& kernel(const char* name) = 0;
  /// Runs `kernel` over `items` work items; `arguments` is its parameter structure.
  virtual void launch(const Kernel& kernel, void* arguments, size_t items, void* stream) = 0;
  /// Runs `kernel` with that many threads, whatever the work.
  virtual void launch_grid(const Kernel& kernel, void* arguments, const Grid& grid,
                           void* stream) = 0;
  /// Holds the stream up until `*flag` (pinned memory, where the device finds it) has come to
  /// `value`, counters that wrap included: a gate for what comes after.
  virtual void wait_for_flag(const uint32_t* flag, uint32_t value, void* stream) = 0;
  /// Calls `function` on a thread of the host once all earlier work is complete; later work of the
  /// stream waits until it returns. It must not call the runtime.
  virtual void call_host(void (*)(void*), void*, void*) {
    throw UnsupportedError("this runtime's streams cannot call host functions");
  }
  /// Sets such a flag once all earlier work is complete and visible to all ranks.
  virtual void write_flag(uint32_t*, uint32_t, void*) {
    throw UnsupportedError("this runtime's streams cannot set flags");
  }

 private:
  std::string checked_on_host_;
};

/// A runtime by name ("cuda", "host"): how many devices it has, one of them opened, whether one may
/// use another's memory, and whether a link of their own connects them.
struct Runtime {
  std::string_view name;
  int (*count)();
  std::unique_ptr<Device> (*open)(int index);
  /// As Device::reaches, for devices that need not be open in this process.
  bool (*reaches)(int from, int to);
  /// Whether a link of the devices' own such as NVLink, not PCIe, connects two that reach each
  /// other. nullptr where that is unknown.
  bool (*linked)(int from, int to) = nullptr;
};

/// The runtime called `name`, or nullptr.
const Runtime* find_runtime(std::string_view name);

int acl_device_count();
std::unique_ptr<Device> open_acl_device(int index);
bool acl_devices_reach(int from, int to);
int cuda_device_count();
std::unique_ptr<Device> open_cuda_device(int index);
bool cuda_devices_reach(int from, int to);
bool cuda_devices_linked(int from, int to);
int host_device_count();
std::unique_ptr<Device> open_host_device(int index);

/// Where Device::allocate() puts memory: the host's devices allocate memory that peers can map.
inline MemoryPlace place_of_allocations(const Device& device) {
  return device.info().runtime == "host" ? MemoryPlace::shared_host : MemoryPlace::device;
}

/// Memory of a device, released with its owner.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, size_t bytes)
      : device_(&device), memory_(device.allocate(bytes)), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() {
    if (memory_ != nullptr) device_->release(memory_);
  }

  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  size_t size_bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
  }

  Device* device_ = nullptr;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

/// A handle of a device, destroyed with its owner.
template <void* (Device::*create)(), void (Device::*destroy)(void*) noexcept>
class Handle {
 public:
  explicit Handle(Device& device) : device_(&device), handle_((device.*create)()) {}
  Handle(Handle&& other) noexcept
      : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (handle_ != nullptr) (device_->*destroy)(handle_);
  }
  void* get() const { return handle_; }

 private:
  Device* device_;
  void* handle_;
};

using Stream = Handle<&Device::create_stream, &Device::destroy_stream>;
using Event = Handle<&Device::create_event, &Device::destroy_event>;

/// Polls until the work on `stream` is complete. Calls `check` periodically, which may raise.
template <typename Check>
void wait_until_idle(Device& device, void* stream, const Check& check) {
  constexpr size_t kPollsPerCheck = 1024;
  LongWait wait;
  for (size_t polls = 1; !device.idle(stream); ++polls) {
    if (wait.pause() || polls % kPollsPerCheck == 0) check();
  }
}

/// Polls until the work on `stream` is complete, which must not depend on other ranks: only the
/// supervision of the rank detects that it hangs.
inline void wait_until_idle(Device& device, void* stream) {
  wait_until_idle(device, stream, [] {});
}

}  // namespace cclmark
