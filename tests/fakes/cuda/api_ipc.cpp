// Device memory that other processes open by a handle.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "common/export.hpp"
#include "cuda/driver.hpp"

namespace fake_cuda {
namespace {

using Address = unsigned long long;

constexpr unsigned kLazyEnablePeerAccess = 1;
constexpr uint64_t kMagic = 0x30'43'50'49'45'4b'41'46;

/// The bytes that callers send each other.
struct Handle {
  uint64_t magic;
  int32_t pid;
  int32_t fd;
  uint32_t serial;
  int32_t device;
  uint64_t file_bytes;
  uint64_t first_page;  ///< offsets in the file
  uint64_t page_bytes;
  uint64_t data;
  uint64_t bytes;
};
static_assert(sizeof(Handle) == 64);

/// A handle as the driver's interface has it.
struct OpaqueHandle {
  char bytes[64];
};

/// Counting users takes finding and adding in one.
std::mutex& opening() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

void fill(Addresses& addresses, const Handle& handle) {
  std::string path = "/proc/" + std::to_string(handle.pid) + "/fd/" + std::to_string(handle.fd);
  int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  require(fd >= 0, kMapFailed);
  struct stat status{};
  bool same = fstat(fd, &status) == 0 && static_cast<uint64_t>(status.st_size) == handle.file_bytes;
  try {
    require(same, kMapFailed);
    addresses.fill(0, handle.page_bytes, fd, handle.first_page, true);
  } catch (const Refusal&) {
    close(fd);
    throw;
  }
  close(fd);
}

}  // namespace

FAKE_API int cuIpcGetMemHandle(OpaqueHandle* opaque, Address address) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    driver.current();
    require(!driver.faults().no_ipc, kNotSupported);
    require(opaque != nullptr, kInvalidValue);
    auto memory = reinterpret_cast<const void*>(address);
    std::shared_ptr<Context> owner = driver.owner_of(memory, 1);
    const Arena& arena = owner->arena;
    std::optional<Arena::Block> block = arena.block_at(memory, 1);
    require(block.has_value(), kInvalidValue);
    Handle handle{kMagic,        getpid(),           arena.fd(),   arena.serial(),
                  owner->device, arena.file_bytes(), block->first, block->page_bytes,
                  block->data,   block->bytes};
    std::memcpy(opaque, &handle, sizeof(handle));
  });
}

FAKE_API int cuIpcOpenMemHandle_v2(Address* address, OpaqueHandle opaque, unsigned flags) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    std::shared_ptr<Context> context = driver.current();
    require(!driver.faults().no_ipc, kNotSupported);
    require(address != nullptr && flags == kLazyEnablePeerAccess, kInvalidValue);
    driver.refuse_during_capture();
    Handle handle;
    std::memcpy(&handle, &opaque, sizeof(handle));
    require(handle.magic == kMagic, kInvalidHandle);
    require(handle.pid != getpid(), kInvalidContext);
    bool near = handle.device == context->device;
    require(near || driver.can_access_peer(context->device, handle.device), kPeerAccessUnsupported);

    std::lock_guard lock(opening());
    OpenedRegion::Key key{handle.pid, handle.serial, handle.data};
    std::shared_ptr<OpenedRegion> region = driver.opened.find_if(
        [&](const OpenedRegion& other) { return other.key == key && other.context == context; });
    if (region != nullptr) {
      ++region->users;
    } else {
      region =
          std::make_shared<OpenedRegion>(key, Memory{handle.device, context}, handle.page_bytes,
                                         handle.data - handle.first_page, handle.bytes);
      fill(region->addresses, handle);
      driver.opened.add(region);
    }
    *address = reinterpret_cast<Address>(region->first);
  });
}

FAKE_API int cuIpcCloseMemHandle(Address address) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    std::shared_ptr<Context> context = driver.current();
    require(!driver.faults().no_ipc, kNotSupported);
    driver.refuse_during_capture();
    auto memory = reinterpret_cast<const void*>(address);
    std::lock_guard lock(opening());
    std::shared_ptr<OpenedRegion> region = driver.opened.find(memory, 1);
    bool closable = region != nullptr && region->first == memory && region->context == context;
    require(closable, kInvalidValue);
    if (--region->users > 0) return;
    driver.drain(*context);
    driver.opened.take(memory);
  });
}

}  // namespace fake_cuda
