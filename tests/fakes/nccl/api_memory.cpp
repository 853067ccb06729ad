// Memory and its registration: only in the recent variant of the library.

#include "common/export.hpp"
#include "nccl/faults.hpp"
#include "nccl/last_error.hpp"
#include "nccl/registration.hpp"

namespace fake_nccl {

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

FAKE_API int ncclCommWindowDeregister(void* communicator, void* window) {
  return guarded([&] { deregister_window(communicator_behind(communicator), window); });
}

}  // namespace fake_nccl
