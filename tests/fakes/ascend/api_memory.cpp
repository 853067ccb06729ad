// Memory, copies and fills.

#include <cstring>

#include "ascend/codes.hpp"
#include "common/export.hpp"
#include "cuda/driver.hpp"
#include "cuda/fake_cuda.h"

namespace fake_ascend {
namespace {

using fake_cuda::Driver;
using fake_cuda::kHost;

enum CopyKind : int { kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice };
enum MemoryKind : int { kDdr, kHbm };
constexpr int kLastPolicy = 7;  // ACL_MEM_MALLOC_HUGE1G_ONLY_P2P

void pass_on(int status) {
  if (status != 0) throw fake_cuda::Refusal{static_cast<fake_cuda::Status>(status)};
}

/// The device whose memory the whole range is, kHost for the host's.
int device_of(const void* memory, size_t bytes) {
  require(memory != nullptr, "an address is null");
  if (auto known = Driver::instance().find_memory(memory, bytes)) return known->device;
  require(!Driver::instance().is_known_address(memory), "the range leaves its allocation");
  return kHost;
}

bool is_known(const void* memory) {
  return Driver::instance().find_memory(memory, 1).has_value();
}

void check_copy(const void* to, size_t most, const void* from, size_t bytes, int kind) {
  Driver::instance().current();
  require(bytes > 0, "there is nothing to copy");
  require(bytes <= most, "more bytes than the destination holds");
  require(kind >= kHostToHost && kind <= kDeviceToDevice, "the kind of copy is none");
  bool from_device = device_of(from, bytes) != kHost, to_device = device_of(to, bytes) != kHost;
  require(from_device == (kind == kDeviceToHost || kind == kDeviceToDevice),
          "the source is not where the kind of copy says");
  require(to_device == (kind == kHostToDevice || kind == kDeviceToDevice),
          "the destination is not where the kind of copy says");
}

std::shared_ptr<fake_cuda::Stream> stream_behind(const void* handle) {
  return Driver::instance().own(Driver::instance().streams, handle);
}

template <typename Body>
void enqueue(fake_cuda::Stream& stream, Body body) {
  stream.push(std::make_shared<const std::function<void()>>(std::move(body)));
}

}  // namespace

FAKE_API int aclrtGetMemInfo(int kind, size_t* free, size_t* total) {
  return guarded("aclrtGetMemInfo", [&] {
    auto context = Driver::instance().current();
    require(free != nullptr && total != nullptr, "a pointer is null");
    require(kind == kDdr || kind == kHbm, "the kind of memory is none");
    *free = kind == kHbm ? context->arena.free_bytes() : 0;
    *total = kind == kHbm ? Driver::instance().memory_bytes() : 0;
  });
}

FAKE_API int aclrtMalloc(void** memory, size_t bytes, int policy) {
  return guarded("aclrtMalloc", [&] {
    require(memory != nullptr, "there is no place for the address");
    require(bytes > 0, "there is nothing to allocate");
    require(policy >= 0 && policy <= kLastPolicy, "the policy is none");
    pass_on(cclmark_fake_allocate(memory, bytes));
  });
}

FAKE_API int aclrtFree(void* memory) {
  return guarded("aclrtFree", [&] { pass_on(cclmark_fake_release(memory)); });
}

FAKE_API int aclrtMallocHost(void** memory, size_t bytes) {
  return guarded("aclrtMallocHost", [&] {
    auto context = Driver::instance().current();
    require(memory != nullptr, "there is no place for the address");
    require(bytes > 0, "there is nothing to allocate");
    auto region = std::make_shared<fake_cuda::Region>(fake_cuda::Memory{kHost, context},
                                                      fake_cuda::whole_pages(bytes), 0, bytes);
    region->addresses.fill(0, region->addresses.bytes(), -1, 0, true);
    fake_cuda::poison(region->first, bytes);
    *memory = region->first;
    Driver::instance().pinned.add(std::move(region));
  });
}

FAKE_API int aclrtFreeHost(void* memory) {
  return guarded("aclrtFreeHost", [&] {
    auto region = Driver::instance().pinned.find(memory, 1);
    require(region != nullptr && region->first == memory, "this was not allocated");
    Driver::instance().drain(*region->context);
    Driver::instance().pinned.take(memory);
  });
}

FAKE_API int aclrtMemcpy(void* to, size_t most, const void* from, size_t bytes, int kind) {
  return guarded("aclrtMemcpy", [&] {
    check_copy(to, most, from, bytes, kind);
    std::memmove(to, from, bytes);
  });
}

FAKE_API int aclrtMemcpyAsync(void* to, size_t most, const void* from, size_t bytes, int kind,
                              void* stream) {
  return guarded("aclrtMemcpyAsync", [&] {
    check_copy(to, most, from, bytes, kind);
    require(kind != kHostToHost, "streams copy nothing within the host", kNotSupported);
    require(is_known(to) && is_known(from), "streams copy no pageable memory of the host");
    enqueue(*stream_behind(stream), [=] { std::memmove(to, from, bytes); });
  });
}

FAKE_API int aclrtMemsetAsync(void* memory, size_t most, int32_t value, size_t bytes,
                              void* stream) {
  return guarded("aclrtMemsetAsync", [&] {
    require(bytes > 0 && bytes <= most, "more bytes than the memory holds, or none");
    require(device_of(memory, bytes) != kHost, "this is no memory of a device");
    enqueue(*stream_behind(stream), [=] { std::memset(memory, value, bytes); });
  });
}

}  // namespace fake_ascend
