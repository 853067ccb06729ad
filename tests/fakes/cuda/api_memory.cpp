// Memory.

#include "common/export.hpp"
#include "cuda/driver.hpp"
#include "cuda/fake_cuda.h"

namespace fake_cuda {
namespace {

using Address = unsigned long long;

constexpr unsigned kHostFlags = 0x7;

}  // namespace

FAKE_API int cuMemGetInfo_v2(size_t* free, size_t* total) {
  return guarded([&] {
    std::shared_ptr<Context> context = Driver::instance().current();
    require(free != nullptr && total != nullptr, kInvalidValue);
    *free = context->arena.free_bytes();
    *total = Driver::instance().memory_bytes();
  });
}

FAKE_API int cuMemAlloc_v2(Address* address, size_t bytes) {
  return cclmark_fake_allocate(reinterpret_cast<void**>(address), bytes);
}

FAKE_API int cuMemFree_v2(Address address) {
  return cclmark_fake_release(reinterpret_cast<void*>(address));
}

FAKE_API int cuMemHostAlloc(void** memory, size_t bytes, unsigned flags) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    std::shared_ptr<Context> context = driver.current();
    require(memory != nullptr && bytes > 0 && (flags & ~kHostFlags) == 0, kInvalidValue);
    driver.refuse_during_capture();
    auto region = std::make_shared<Region>(Memory{kHost, context}, whole_pages(bytes), 0, bytes);
    region->addresses.fill(0, region->addresses.bytes(), -1, 0, true);
    poison(region->first, bytes);
    *memory = region->first;
    driver.pinned.add(std::move(region));
  });
}

FAKE_API int cuMemFreeHost(void* memory) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    driver.current();
    driver.refuse_during_capture();
    std::shared_ptr<Region> region = driver.pinned.find(memory, 1);
    require(region != nullptr && region->first == memory, kInvalidValue);
    driver.drain(*region->context);
    driver.pinned.take(memory);
  });
}

}  // namespace fake_cuda
