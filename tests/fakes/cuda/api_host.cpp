// Pinned memory, and memory of the caller's that is to count as such.

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "common/export.hpp"
#include "cuda/driver.hpp"

namespace fake_cuda {
namespace {

using Address = unsigned long long;

constexpr unsigned kHostFlags = 0x7;

enum RegisterFlags : unsigned { kPortable = 0x1, kReadOnly = 0x8, kAllRegisterFlags = 0xf };

/// Looking for overlaps and adding are one.
std::mutex& registering() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

/// Whether the process has memory at all of the range.
bool is_mapped(const std::byte* first, size_t bytes) {
  constexpr size_t kPages = 1024;
  unsigned char resident[kPages];
  size_t before = reinterpret_cast<uintptr_t>(first) % kPageBytes;
  if (bytes > SIZE_MAX - before) return false;
  auto page = reinterpret_cast<uintptr_t>(first) - before;
  for (size_t left = before + bytes; left > 0;) {
    size_t step = std::min(left, kPages * kPageBytes);
    if (mincore(reinterpret_cast<void*>(page), step, resident) != 0) return false;
    page += step;
    left -= step;
  }
  return true;
}

}  // namespace

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

FAKE_API int cuMemHostRegister_v2(void* memory, size_t bytes, unsigned flags) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    std::shared_ptr<Context> context = driver.current();
    require(memory != nullptr && bytes > 0 && (flags & ~kAllRegisterFlags) == 0, kInvalidValue);
    driver.refuse_during_capture();
    auto first = static_cast<std::byte*>(memory);
    require(is_mapped(first, bytes), kInvalidValue);
    std::lock_guard lock(registering());
    bool taken = driver.registered.overlaps(first, bytes) || driver.pinned.overlaps(first, bytes);
    require(!taken, kHostMemoryRegistered);
    bool foreign = driver.is_known_address(first) || driver.is_known_address(first + bytes - 1);
    require(!foreign, kInvalidValue);
    driver.registered.add(std::make_shared<Registered>(Registered{
        {kHost, context, (flags & kReadOnly) == 0}, first, bytes, (flags & kPortable) != 0}));
  });
}

FAKE_API int cuMemHostUnregister(void* memory) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    driver.current();
    driver.refuse_during_capture();
    std::shared_ptr<Registered> range = driver.find_registered(memory, 1);
    require(range != nullptr && range->first == memory, kHostMemoryNotRegistered);
    for (const auto& stream : driver.streams.all()) {
      if (range->portable || stream->context == range->context) stream->drain();
    }
    driver.registered.take(memory);
  });
}

FAKE_API int cuMemHostGetDevicePointer_v2(Address* address, void* memory, unsigned flags) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    driver.current();
    require(address != nullptr && flags == 0, kInvalidValue);
    bool known = driver.pinned.find(memory, 1) || driver.find_registered(memory, 1);
    require(known, kInvalidValue);
    *address = reinterpret_cast<Address>(memory);
  });
}

}  // namespace fake_cuda
