// Memory and copies.

#include <cstring>

#include "common/export.hpp"
#include "cuda/driver.hpp"
#include "cuda/fake_cuda.h"

namespace fake_cuda {
namespace {

using Address = unsigned long long;

std::byte* device_range(Address address, size_t bytes) {
  auto memory = reinterpret_cast<std::byte*>(address);
  Driver::instance().owner_of(memory, bytes);
  return memory;
}

void require_host(const void* memory) {
  require(memory != nullptr && !Driver::instance().is_device_memory(memory), kInvalidValue);
}

std::shared_ptr<Stream> stream_behind(void* handle) {
  return Driver::instance().own(Driver::instance().streams, handle);
}

template <typename Body>
void enqueue(Stream& stream, Body body) {
  stream.push(std::make_shared<const std::function<void()>>(std::move(body)));
}

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
  return guarded([&] {
    std::shared_ptr<Context> context = Driver::instance().current();
    require(address != nullptr, kInvalidValue);
    Driver::instance().refuse_during_capture();
    *address = reinterpret_cast<Address>(context->arena.allocate(bytes));
  });
}

FAKE_API int cuMemFree_v2(Address address) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    driver.current();
    driver.refuse_during_capture();
    auto memory = reinterpret_cast<void*>(address);
    std::shared_ptr<Context> owner = driver.owner_of(memory, 1);
    // The driver waits for the device before it takes memory away.
    driver.drain(*owner);
    owner->arena.release(memory);
  });
}

// The two copies go round all streams: the streams are of the kind that does not wait for them.

FAKE_API int cuMemcpyDtoH_v2(void* host, Address from, size_t bytes) {
  return guarded([&] {
    Driver::instance().current();
    Driver::instance().refuse_during_capture();
    if (bytes == 0) return;
    require_host(host);
    std::memcpy(host, device_range(from, bytes), bytes);
  });
}

FAKE_API int cuMemcpyHtoD_v2(Address to, const void* host, size_t bytes) {
  return guarded([&] {
    Driver::instance().current();
    Driver::instance().refuse_during_capture();
    if (bytes == 0) return;
    require_host(host);
    std::memcpy(device_range(to, bytes), host, bytes);
  });
}

FAKE_API int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
  return guarded([&] {
    std::shared_ptr<Stream> target = stream_behind(stream);
    if (bytes == 0) return;
    std::byte* destination = device_range(to, bytes);
    const std::byte* source = device_range(from, bytes);
    enqueue(*target, [=] { std::memmove(destination, source, bytes); });
  });
}

FAKE_API int cuMemsetD8Async(Address to, unsigned char value, size_t bytes, void* stream) {
  return guarded([&] {
    std::shared_ptr<Stream> target = stream_behind(stream);
    if (bytes == 0) return;
    std::byte* destination = device_range(to, bytes);
    enqueue(*target, [=] { std::memset(destination, value, bytes); });
  });
}

FAKE_API int cclmark_fake_locate(const void* ptr, size_t bytes, int* fd, size_t* offset,
                                 unsigned* serial, size_t* file_bytes) {
  return guarded([&] {
    std::shared_ptr<Context> owner = Driver::instance().owner_of(ptr, bytes);
    *fd = owner->arena.fd();
    *offset = owner->arena.offset_of(ptr, bytes).value();
    *serial = owner->arena.serial();
    *file_bytes = owner->arena.file_bytes();
  });
}

}  // namespace fake_cuda
