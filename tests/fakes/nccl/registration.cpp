#include "nccl/registration.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "nccl/debug_file.hpp"

namespace fake_nccl {
namespace {

/// What a window has to be aligned to (NCCL_WIN_REQUIRED_ALIGNMENT).
constexpr size_t kWindowAlignmentBytes = 4096;

struct Registration {
  std::shared_ptr<Communicator> communicator;
  const std::byte* memory;
  size_t bytes;
};

using Registrations = fake_common::HandleTable<Registration>;

struct State {
  std::mutex mutex;
  std::map<const std::byte*, size_t> allocated_bytes;
  Registrations buffers{48};
  Registrations windows{49};
};

/// Never destroyed: callers may release in their own destructors at exit.
State& state() {
  static auto* kept = new State;
  return *kept;
}

bool allocated_here(const std::byte* memory, size_t bytes) {
  std::lock_guard lock(state().mutex);
  auto next = state().allocated_bytes.upper_bound(memory);
  if (next == state().allocated_bytes.begin()) return false;
  const auto& [first, size] = *std::prev(next);
  auto offset = static_cast<size_t>(memory - first);
  return offset < size && bytes <= size - offset;
}

bool registered(const Registrations& registrations, const std::byte* memory, size_t bytes) {
  for (const auto& known : registrations.all()) {
    if (known->memory < memory + bytes && memory < known->memory + known->bytes) return true;
  }
  return false;
}

void deregister(Registrations& registrations, const std::shared_ptr<Communicator>& communicator,
                const void* handle) {
  auto known = registrations.find(handle);
  require(known != nullptr && known->communicator == communicator, kInvalidArgument,
          "the handle is not of a registration with this communicator");
  registrations.take(handle);
}

}  // namespace

void* allocate_memory(size_t bytes) {
  size_t whole = (bytes + kWindowAlignmentBytes - 1) / kWindowAlignmentBytes;
  void* memory = Runtime::instance().allocate(whole * kWindowAlignmentBytes);
  std::lock_guard lock(state().mutex);
  state().allocated_bytes[static_cast<std::byte*>(memory)] = whole * kWindowAlignmentBytes;
  return memory;
}

void release_memory(void* memory) {
  auto first = static_cast<std::byte*>(memory);
  std::lock_guard lock(state().mutex);
  auto known = state().allocated_bytes.find(first);
  require(known != state().allocated_bytes.end(), kInvalidArgument,
          "the memory is not of ncclMemAlloc");
  bool in_use = registered(state().buffers, first, known->second) ||
                registered(state().windows, first, known->second);
  require(!in_use, kInvalidUsage, "the memory is still registered");
  Runtime::instance().release(memory);
  state().allocated_bytes.erase(known);
}

void* register_buffer(const std::shared_ptr<Communicator>& communicator, void* memory,
                      size_t bytes) {
  require(bytes > 0, kInvalidArgument, "nothing to register");
  Runtime::instance().locate(memory, bytes);
  return state().buffers.add(std::make_shared<Registration>(
      Registration{communicator, static_cast<std::byte*>(memory), bytes}));
}

void* register_window(const std::shared_ptr<Communicator>& communicator, void* memory, size_t bytes,
                      int flags) {
  bool fit = bytes > 0 && flags == kSymmetricWindow &&
             reinterpret_cast<uintptr_t>(memory) % kWindowAlignmentBytes == 0 &&
             allocated_here(static_cast<std::byte*>(memory), bytes);
  // A rank with a bad argument still meets the others, so that all fail and none waits.
  std::vector<Message> messages = communicator->meet({0, 0, fit ? bytes : 0, {}});
  require(fit, kInvalidArgument,
          "a window needs memory of ncclMemAlloc, aligned to 4096, and flag 1");
  for (const Message& message : messages) {
    require(message.bytes == bytes, kInvalidArgument,
            "the ranks' windows differ in size, or one of them is bad");
  }
  return state().windows.add(std::make_shared<Registration>(
      Registration{communicator, static_cast<std::byte*>(memory), bytes}));
}

void deregister_buffer(const std::shared_ptr<Communicator>& communicator, const void* handle) {
  deregister(state().buffers, communicator, handle);
}

void deregister_window(const std::shared_ptr<Communicator>& communicator, const void* handle) {
  deregister(state().windows, communicator, handle);
}

void log_registration(const std::shared_ptr<Communicator>& communicator, void* stream,
                      const Operation& operation) {
  FILE* file = debug_file("REG");
  if (file == nullptr) return;
  const std::byte* memory = operation.send != nullptr ? operation.send : operation.receive;
  const size_t bytes = operation.count * size_bytes(operation.dtype);
  bool is_registered = registered(state().buffers, memory, bytes);
  if (!is_registered && allocated_here(memory, bytes)) {
    int capturing = 0;
    auto is_capturing =
        reinterpret_cast<int (*)(void*, int*)>(Runtime::instance().find("cclmark_fake_capturing"));
    const char* allowed = std::getenv("NCCL_GRAPH_REGISTER");
    is_registered = is_capturing(stream, &capturing) == 0 && capturing != 0 &&
                    (allowed == nullptr || std::strcmp(allowed, "0") != 0);
  }
  if (!is_registered) return;
  std::fprintf(file,
               "fake:1:1 [0] NCCL INFO rank %d - IPC register buffer %p size %zu (baseAddr %p size "
               "%zu) to peer 0 regAddr %p offsetOut 0\n",
               communicator->rank(), static_cast<const void*>(memory), bytes,
               static_cast<const void*>(memory), bytes, static_cast<const void*>(memory));
  std::fflush(file);
}

void forget_registrations(const std::shared_ptr<Communicator>& communicator) {
  auto belongs = [&](const Registration& known) { return known.communicator == communicator; };
  state().buffers.take_if(belongs);
  state().windows.take_if(belongs);
}

}  // namespace fake_nccl
