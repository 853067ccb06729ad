// Memory without addresses, addresses without memory, and descriptors that other processes import.

#include <sys/random.h>

#include <cstdio>

#include "common/environment.hpp"
#include "common/export.hpp"
#include "cuda/driver.hpp"

namespace fake_cuda {
namespace {

using Address = unsigned long long;

constexpr int kPinnedAllocation = 1, kDeviceLocation = 1;
constexpr int kNoHandle = 0, kFileDescriptor = 1, kFabric = 8;
constexpr int kNoAccess = 0, kReadAccess = 1, kReadWriteAccess = 3;

// As in cuda.h.
struct Location {
  int type;
  int id;
};
struct Properties {
  int type;
  int handle_types;
  Location location;
  void* win32;
  struct {
    unsigned char compression;
    unsigned char rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};
struct Access {
  Location location;
  int flags;
};
static_assert(sizeof(Properties) == 32 && sizeof(Access) == 12);

void require_device(const Location& location) {
  require(location.type == kDeviceLocation, kInvalidValue);
  Driver::instance().require_device(location.id);
}

void require_valid(const Properties* properties) {
  require(properties != nullptr && properties->type == kPinnedAllocation, kInvalidValue);
  require_device(properties->location);
  int handles = properties->handle_types;
  bool fabric = handles == kFabric && !fabric_directory().empty();
  require(handles == kNoHandle || handles == kFileDescriptor || fabric, kNotSupported);
  require(properties->win32 == nullptr && properties->flags.compression == 0 &&
              properties->flags.rdma_capable <= 1 && properties->flags.usage == 0,
          kInvalidValue);
}

/// Processes of different hosts may have the same number.
FabricHandle fresh_handle(int device) {
  FabricHandle handle{};
  unsigned long long random = 0;
  require(getrandom(&random, sizeof(random), 0) == sizeof(random), kNotSupported);
  std::snprintf(handle.name, sizeof(handle.name), "device-%d-%016llx", device, random);
  return handle;
}

std::byte* at(Address address) {
  return reinterpret_cast<std::byte*>(address);
}

void* handle_of(unsigned long long number) {
  return reinterpret_cast<void*>(number);
}

std::shared_ptr<Physical> physical_behind(unsigned long long number) {
  Driver::instance().require_initialized();
  std::shared_ptr<Physical> physical = Driver::instance().physicals.find(handle_of(number));
  require(physical != nullptr, kInvalidValue);
  return physical;
}

unsigned long long number_of(std::shared_ptr<Physical> physical) {
  return reinterpret_cast<Address>(Driver::instance().physicals.add(std::move(physical)));
}

}  // namespace

FAKE_API int cuMemGetAllocationGranularity(size_t* bytes, const Properties* properties,
                                           int option) {
  return guarded([&] {
    Driver::instance().require_initialized();
    require(bytes != nullptr && (option == 0 || option == 1), kInvalidValue);
    require_valid(properties);
    *bytes = kGranularityBytes;
  });
}

FAKE_API int cuMemCreate(unsigned long long* handle, size_t bytes, const Properties* properties,
                         unsigned long long flags) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    driver.require_initialized();
    require(handle != nullptr && flags == 0, kInvalidValue);
    require_valid(properties);
    require(bytes > 0 && bytes % kGranularityBytes == 0, kInvalidValue);
    int device = properties->location.id;
    std::shared_ptr<const void> pledge = driver.pledge(device, bytes);
    bool exportable = properties->handle_types == kFileDescriptor;
    require(!(exportable && driver.faults().no_export), kNotSupported);
    std::shared_ptr<Physical> physical;
    if (properties->handle_types == kFabric) {
      // CCLMARK_FAKE_IMEX: whether this process has a channel.
      require(!fake_common::environment_is("CCLMARK_FAKE_IMEX", "none"), kNotPermitted);
      physical = std::make_shared<Physical>(device, bytes, fresh_handle(device), std::move(pledge));
    } else {
      physical = std::make_shared<Physical>(device, bytes, exportable, std::move(pledge));
    }
    *handle = number_of(std::move(physical));
  });
}

FAKE_API int cuMemRelease(unsigned long long handle) {
  return guarded([&] {
    physical_behind(handle);
    Driver::instance().physicals.take(handle_of(handle));
  });
}

FAKE_API int cuMemExportToShareableHandle(void* descriptor, unsigned long long handle, int type,
                                          unsigned long long flags) {
  return guarded([&] {
    std::shared_ptr<Physical> physical = physical_behind(handle);
    require(descriptor != nullptr && flags == 0, kInvalidValue);
    require(type == kFileDescriptor || type == kFabric, kInvalidValue);
    if (type == kFabric) {
      *static_cast<FabricHandle*>(descriptor) = physical->fabric();
    } else {
      *static_cast<int*>(descriptor) = physical->exported();
    }
  });
}

/// The descriptor itself is the pointer; a fabric handle is where it points to.
FAKE_API int cuMemImportFromShareableHandle(unsigned long long* handle, void* descriptor,
                                            int type) {
  return guarded([&] {
    Driver::instance().require_initialized();
    require(handle != nullptr, kInvalidValue);
    require(type == kFileDescriptor || type == kFabric, kInvalidValue);
    if (type == kFabric) {
      require(descriptor != nullptr, kInvalidValue);
      const auto& exported = *static_cast<const FabricHandle*>(descriptor);
      *handle = number_of(std::make_shared<Physical>(exported));
      return;
    }
    auto number = reinterpret_cast<intptr_t>(descriptor);
    require(number >= 0 && number <= INT32_MAX, kInvalidValue);
    *handle = number_of(std::make_shared<Physical>(static_cast<int>(number)));
  });
}

FAKE_API int cuMemAddressReserve(Address* address, size_t bytes, size_t alignment, Address,
                                 unsigned long long flags) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    driver.require_initialized();
    require(address != nullptr && flags == 0, kInvalidValue);
    require((alignment & (alignment - 1)) == 0, kInvalidValue);
    *address = reinterpret_cast<Address>(driver.virtual_memory.reserve(bytes, alignment));
  });
}

FAKE_API int cuMemAddressFree(Address address, size_t bytes) {
  return guarded([&] { Driver::instance().virtual_memory.free(at(address), bytes); });
}

FAKE_API int cuMemMap(Address address, size_t bytes, size_t offset, unsigned long long handle,
                      unsigned long long flags) {
  return guarded([&] {
    std::shared_ptr<Physical> physical = physical_behind(handle);
    require(offset == 0 && flags == 0, kInvalidValue);
    Driver::instance().virtual_memory.map(at(address), bytes, std::move(physical));
  });
}

FAKE_API int cuMemUnmap(Address address, size_t bytes) {
  return guarded([&] { Driver::instance().virtual_memory.unmap(at(address), bytes); });
}

FAKE_API int cuMemSetAccess(Address address, size_t bytes, const Access* accesses, size_t count) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    require(accesses != nullptr && count > 0, kInvalidValue);
    int owner = driver.virtual_memory.device_at(at(address), bytes);
    for (const Access* access = accesses; access < accesses + count; ++access) {
      require_device(access->location);
      int device = access->location.id, flags = access->flags;
      require(flags != kReadAccess, kNotSupported);
      require(flags == kNoAccess || flags == kReadWriteAccess, kInvalidValue);
      require(device == owner || driver.can_access_peer(device, owner), kInvalidDevice);
    }
    for (const Access* access = accesses; access < accesses + count; ++access) {
      driver.virtual_memory.set_access(at(address), bytes, access->location.id,
                                       access->flags == kReadWriteAccess);
    }
  });
}

}  // namespace fake_cuda
