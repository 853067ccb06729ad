// Memory, its registration and its statistics: only in the recent variant of the library.

#include <cstdint>

#include "common/export.hpp"
#include "nccl/faults.hpp"
#include "nccl/last_error.hpp"
#include "nccl/registration.hpp"

namespace fake_nccl {
namespace {

/// The numbers of ncclCommMemStat_t.
enum MemoryStat : int { kSuspend, kSuspended, kPersist, kTotal };

}  // namespace

FAKE_API int ncclMemAlloc(void** memory, size_t bytes) {
  return guarded([&] {
    require(memory != nullptr, kInvalidArgument, "no place for the memory");
    *memory = allocate_memory(bytes);
  });
}

FAKE_API int ncclMemFree(void* memory) {
  return guarded([&] { release_memory(memory); });
}

FAKE_API int ncclCommRegister(void* communicator, void* memory, size_t bytes, void** handle) {
  return guarded([&] {
    require(handle != nullptr, kInvalidArgument, "no place for the handle");
    std::shared_ptr<Communicator> owner = communicator_behind(communicator);
    fail_if_asked(owner->rank(), "CommRegister");
    *handle = register_buffer(owner, memory, bytes);
  });
}

FAKE_API int ncclCommDeregister(void* communicator, void* handle) {
  return guarded([&] { deregister_buffer(communicator_behind(communicator), handle); });
}

FAKE_API int ncclCommWindowRegister(void* communicator, void* memory, size_t bytes, void** window,
                                    int flags) {
  return guarded([&] {
    require(window != nullptr, kInvalidArgument, "no place for the window");
    std::shared_ptr<Communicator> owner = communicator_behind(communicator);
    fail_if_asked(owner->rank(), "CommWindowRegister");
    *window = register_window(owner, memory, bytes, flags);
  });
}

FAKE_API int ncclCommMemStats(void* communicator, int stat, uint64_t* value) {
  return guarded([&] {
    require(value != nullptr, kInvalidArgument, "no place for the value");
    std::shared_ptr<Communicator> owner = communicator_behind(communicator);
    fail_if_asked(owner->rank(), "CommMemStats");
    require(stat >= kSuspend && stat <= kTotal, kInvalidArgument, "no such statistic");
    *value = stat == kPersist || stat == kTotal ? owner->taken_bytes() : 0;
  });
}

FAKE_API int ncclCommWindowDeregister(void* communicator, void* window) {
  return guarded([&] { deregister_window(communicator_behind(communicator), window); });
}

}  // namespace fake_nccl
