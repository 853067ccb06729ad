// Copies and fills.

#include <chrono>
#include <cstring>
#include <thread>

#include "common/environment.hpp"
#include "common/export.hpp"
#include "cuda/driver.hpp"

namespace fake_cuda {
namespace {

using Address = unsigned long long;

struct Side {
  std::byte* first;
  Memory memory;
};

/// Raises Refusal unless all of the range is memory of one device.
Side device_side(Address address, size_t bytes) {
  auto first = reinterpret_cast<std::byte*>(address);
  std::optional<Memory> memory = Driver::instance().find_memory(first, bytes);
  require(memory.has_value() && memory->device != kHost, kInvalidValue);
  return {first, *memory};
}

/// Memory of any kind; what the driver does not know is pageable.
Side any_side(Address address, size_t bytes) {
  auto first = reinterpret_cast<std::byte*>(address);
  if (auto memory = Driver::instance().find_memory(first, bytes)) return {first, *memory};
  require(first != nullptr && !Driver::instance().is_known_address(first), kInvalidValue);
  return {first, {kHost, nullptr}};
}

/// Memory of a device that goes with a context.
Side side_of(const void* handle, Address address, size_t bytes) {
  std::shared_ptr<Context> context = Driver::instance().context(handle);
  Side side = device_side(address, bytes);
  bool belongs = side.memory.context == context || side.memory.device == context->device;
  require(belongs, kInvalidValue);
  return side;
}

/// Raises Refusal when devices may only read the memory.
Side target_side(Address address, size_t bytes) {
  Side side = any_side(address, bytes);
  require(side.memory.writable, kInvalidValue);
  return side;
}

void require_host(const Side& side) {
  require(side.memory.device == kHost, kInvalidValue);
}

std::shared_ptr<Stream> stream_behind(void* handle) {
  return Driver::instance().own(Driver::instance().streams, handle);
}

template <typename Body>
void enqueue(Stream& stream, Body body) {
  stream.push(std::make_shared<const std::function<void()>>(std::move(body)));
}

/// CCLMARK_FAKE_COPY_US: how long each copy takes at least.
unsigned long long copy_us() {
  static const auto microseconds = fake_common::environment_number("CCLMARK_FAKE_COPY_US", 0, 0);
  return microseconds;
}

/// A copy that may be one of those that the environment spoils.
void enqueue_copy(Stream& stream, const Side& to, const Side& from, size_t bytes) {
  stream.enter_copy();
  const Faults& faults = Driver::instance().faults();
  std::byte *target = to.first, *source = from.first;
  int source_device = from.memory.device, target_device = to.memory.device;
  if (lists(faults.copy_hang, source_device, target_device)) {
    enqueue(stream, [context = stream.context] { context->wait_until([] { return false; }); });
  } else if (lists(faults.copy_fail, source_device, target_device)) {
    enqueue(stream, [] { throw Refusal{kIllegalAddress}; });
  } else {
    enqueue(stream, [=] {
      auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(copy_us());
      std::memmove(target, source, bytes);
      std::this_thread::sleep_until(end);
    });
  }
}

/// Whether copies between the two go through the host: neither may use the other's memory.
bool through_host(void* to_context, void* from_context) {
  Driver& driver = Driver::instance();
  std::shared_ptr<Context> to = driver.context(to_context), from = driver.context(from_context);
  auto reaches = [](Context& context, void* other) {
    std::scoped_lock lock(context.mutex);
    return context.peers.contains(other);
  };
  return to != from && !reaches(*to, from_context) && !reaches(*from, to_context);
}

}  // namespace

// The two copies go round all streams: the streams are of the kind that does not wait for them.

FAKE_API int cuMemcpyDtoH_v2(void* host, Address from, size_t bytes) {
  return guarded([&] {
    Driver::instance().current();
    Driver::instance().refuse_during_capture();
    if (bytes == 0) return;
    require_host(target_side(reinterpret_cast<Address>(host), 1));
    std::memcpy(host, device_side(from, bytes).first, bytes);
  });
}

FAKE_API int cuMemcpyHtoD_v2(Address to, const void* host, size_t bytes) {
  return guarded([&] {
    Driver::instance().current();
    Driver::instance().refuse_during_capture();
    if (bytes == 0) return;
    require_host(any_side(reinterpret_cast<Address>(host), 1));
    std::memcpy(device_side(to, bytes).first, host, bytes);
  });
}

FAKE_API int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
  return guarded([&] {
    std::shared_ptr<Stream> target = stream_behind(stream);
    if (bytes == 0) return;
    std::byte* destination = device_side(to, bytes).first;
    const std::byte* source = device_side(from, bytes).first;
    enqueue(*target, [=] { std::memmove(destination, source, bytes); });
  });
}

FAKE_API int cuMemcpyAsync(Address to, Address from, size_t bytes, void* stream) {
  return guarded([&] {
    std::shared_ptr<Stream> target = stream_behind(stream);
    if (bytes == 0) return;
    enqueue_copy(*target, target_side(to, bytes), any_side(from, bytes), bytes);
  });
}

FAKE_API int cuMemcpyPeerAsync(Address to, void* to_context, Address from, void* from_context,
                               size_t bytes, void* stream) {
  return guarded([&] {
    std::shared_ptr<Stream> target = stream_behind(stream);
    if (bytes == 0) return;
    bool staged = through_host(to_context, from_context);
    if (staged)
      target->context->wait_until([&] { return !target->context->staging.exchange(true); });
    enqueue_copy(*target, side_of(to_context, to, bytes), side_of(from_context, from, bytes),
                 bytes);
    if (staged) enqueue(*target, [context = target->context] { context->staging = false; });
  });
}

FAKE_API int cuMemsetD8Async(Address to, unsigned char value, size_t bytes, void* stream) {
  return guarded([&] {
    std::shared_ptr<Stream> target = stream_behind(stream);
    if (bytes == 0) return;
    std::byte* first = device_side(to, bytes).first;
    enqueue(*target, [=] { std::memset(first, value, bytes); });
  });
}

}  // namespace fake_cuda
