#include "cuda/driver.hpp"

#include <limits>

#include "common/environment.hpp"

namespace fake_cuda {
namespace {

using fake_common::environment_number;
using fake_common::environment_pairs;

constexpr unsigned long long kDevices = 4;
constexpr unsigned long long kNoDeviceLost = std::numeric_limits<int>::max();
constexpr unsigned long long kMemoryBytes = 1ull << 30;
/// Compute capability 9.9 exists nowhere, so that kernels of the fake and of a real GPU never meet
/// in one cache of compiled kernels.
constexpr unsigned long long kArchitecture = 99;

thread_local std::shared_ptr<Context> current_context;

}  // namespace

Faults Faults::from_environment() {
  return {environment_pairs("CCLMARK_FAKE_NO_PEER"),
          environment_pairs("CCLMARK_FAKE_COPY_HANG"),
          environment_pairs("CCLMARK_FAKE_COPY_FAIL"),
          environment_number("CCLMARK_FAKE_NO_IPC", 0, 0) != 0,
          environment_number("CCLMARK_FAKE_NO_EXPORT", 0, 0) != 0,
          environment_number("CCLMARK_FAKE_NO_NATIVE_ATOMICS", 0, 0) != 0,
          environment_number("CCLMARK_FAKE_OTHER_DRIVER", 0, 0) != 0,
          static_cast<int>(environment_number("CCLMARK_FAKE_LOST_DEVICE", kNoDeviceLost, 0))};
}

Driver& Driver::instance() {
  static Driver* driver = new Driver;
  return *driver;
}

Driver::Driver()
    : device_count_(static_cast<int>(environment_number("CCLMARK_FAKE_DEVICES", kDevices, 0))),
      memory_bytes_(environment_number("CCLMARK_FAKE_MEMORY", kMemoryBytes)),
      architecture_(
          static_cast<int>(environment_number("CCLMARK_FAKE_ARCHITECTURE", kArchitecture))),
      faults_(Faults::from_environment()),
      primaries_(static_cast<size_t>(device_count_)) {}

void Driver::initialize() {
  require(!faults_.other_driver, kDriverMismatch);
  require(device_count_ > 0, kNoDevice);
  initialized_ = true;
}

void Driver::require_device(int device) const {
  require_initialized();
  require(device >= 0 && device < device_count_, kInvalidDevice);
}

bool Driver::can_access_peer(int device, int peer) const {
  return device != peer && !lists(faults_.no_peer, device, peer) &&
         !lists(faults_.no_peer, peer, device);
}

void* Driver::retain(int device) {
  require_device(device);
  require(device != faults_.lost_device, kDeviceUnavailable);
  std::lock_guard lock(mutex_);
  Primary& primary = primaries_[static_cast<size_t>(device)];
  if (primary.users == 0) {
    primary.handle =
        contexts_.add(std::make_shared<Context>(device, memory_bytes_, primary.pledged));
  }
  ++primary.users;
  return primary.handle;
}

void Driver::release(int device) {
  require_device(device);
  std::lock_guard lock(mutex_);
  Primary& primary = primaries_[static_cast<size_t>(device)];
  require(primary.users > 0, kInvalidContext);
  if (--primary.users == 0) destroy(contexts_.take(primary.handle));
}

std::shared_ptr<const void> Driver::pledge(int device, size_t bytes) {
  std::lock_guard lock(mutex_);
  Primary& primary = primaries_[static_cast<size_t>(device)];
  std::shared_ptr<Context> user = contexts_.find(primary.handle);
  size_t free = user != nullptr ? user->arena.free_bytes() : memory_bytes_ - primary.pledged;
  require(bytes <= free, kOutOfMemory);
  primary.pledged += bytes;
  return std::shared_ptr<const void>(&primary,
                                     [&primary, bytes](const void*) { primary.pledged -= bytes; });
}

void Driver::destroy(const std::shared_ptr<Context>& context) {
  auto belongs = [&](const auto& object) { return object.context == context; };
  context->ending = true;
  drain(*context);
  context->alive = false;
  for (const auto& stream : streams.take_if(belongs)) stream->close();
  events.take_if(belongs);
  graphs.take_if(belongs);
  executables.take_if(belongs);
  functions.take_if(belongs);
  modules.take_if(belongs);
  pinned.remove_if(belongs);
  registered.remove_if(belongs);
  opened.remove_if(belongs);
}

void Driver::set_current(void* handle) {
  require_initialized();
  std::shared_ptr<Context> context = contexts_.find(handle);
  require(handle == nullptr || context != nullptr, kInvalidContext);
  current_context = std::move(context);
}

std::shared_ptr<Context> Driver::current() const {
  require_initialized();
  require(current_context != nullptr && current_context->alive, kInvalidContext);
  return current_context;
}

std::shared_ptr<Context> Driver::context(const void* handle) const {
  require_initialized();
  std::shared_ptr<Context> found = contexts_.find(handle);
  require(found != nullptr, kInvalidContext);
  return found;
}

std::shared_ptr<Context> Driver::owner_of(const void* memory, size_t bytes) const {
  for (const auto& context : contexts_.all()) {
    if (context->arena.offset_of(memory, bytes)) return context;
  }
  throw Refusal{kInvalidValue};
}

std::shared_ptr<Registered> Driver::find_registered(const void* memory, size_t bytes) const {
  std::shared_ptr<Registered> found = registered.find(memory, bytes);
  bool usable = found != nullptr && (found->portable || found->context == current());
  return usable ? found : nullptr;
}

std::optional<Memory> Driver::find_memory(const void* memory, size_t bytes) const {
  for (const auto& context : contexts_.all()) {
    if (context->arena.block_at(memory, bytes)) return Memory{context->device, context};
  }
  if (auto region = opened.find(memory, bytes)) return *region;
  if (auto device = virtual_memory.find(memory, bytes)) return Memory{*device, nullptr};
  if (auto region = pinned.find(memory, bytes)) return *region;
  if (auto range = find_registered(memory, bytes)) return *range;
  return std::nullopt;
}

bool Driver::is_known_address(const void* memory) const {
  for (const auto& context : contexts_.all()) {
    if (context->arena.contains(memory)) return true;
  }
  return virtual_memory.reserved(memory) || find_memory(memory, 1).has_value();
}

void Driver::refuse_during_capture() const {
  bool spoiled = false;
  for (const auto& stream : streams.all()) {
    spoiled |= stream->spoil_capture(std::this_thread::get_id());
  }
  require(!spoiled, kCaptureUnsupported);
}

void Driver::drain(const Context& context) const {
  for (const auto& stream : streams.all()) {
    if (stream->context.get() == &context) stream->drain();
  }
}

}  // namespace fake_cuda
