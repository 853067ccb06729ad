// Device memory.

#include "common/export.hpp"
#include "cuda/driver.hpp"
#include "cuda/fake_cuda.h"

namespace fake_cuda {
namespace {

using Address = unsigned long long;

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

}  // namespace fake_cuda
