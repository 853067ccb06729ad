// What fake CCLs take from the runtime beside its vendor's interface: see fake_cuda.h.

#include "common/export.hpp"
#include "cuda/driver.hpp"
#include "cuda/fake_cuda.h"

namespace fake_cuda {

FAKE_API int cclmark_fake_enqueue(void* stream, void (*fn)(void*), void* arg,
                                  void (*destroy)(void*)) {
  return guarded([&] {
    require(fn != nullptr && destroy != nullptr, kInvalidValue);
    std::shared_ptr<Stream> target = Driver::instance().own(Driver::instance().streams, stream);
    auto owned = std::make_shared<bool>(true);
    std::shared_ptr<void> argument(arg, [destroy, owned](void* object) {
      if (*owned) destroy(object);
    });
    try {
      target->push(
          std::make_shared<const std::function<void()>>([fn, argument] { fn(argument.get()); }));
    } catch (const Refusal&) {
      // What was not queued stays the caller's.
      *owned = false;
      throw;
    }
  });
}

FAKE_API int cclmark_fake_capturing(void* stream, int* capturing) {
  return guarded([&] {
    require(capturing != nullptr, kInvalidValue);
    auto target = Driver::instance().own(Driver::instance().streams, stream);
    *capturing = target->capturing() ? 1 : 0;
  });
}

FAKE_API int cclmark_fake_locate(const void* ptr, size_t bytes, int* fd, size_t* offset,
                                 unsigned* serial, size_t* file_bytes) {
  return guarded([&] {
    if (auto mapped = Driver::instance().virtual_memory.locate(ptr, bytes)) {
      const auto& [physical, within] = *mapped;
      *fd = physical->fd();
      *offset = within;
      *serial = physical->serial();
      *file_bytes = physical->bytes();
      return;
    }
    std::shared_ptr<Context> owner = Driver::instance().owner_of(ptr, bytes);
    *fd = owner->arena.fd();
    *offset = owner->arena.offset_of(ptr, bytes).value();
    *serial = owner->arena.serial();
    *file_bytes = owner->arena.file_bytes();
  });
}

FAKE_API int cclmark_fake_current_device(int* device) {
  return guarded([&] {
    require(device != nullptr, kInvalidValue);
    *device = Driver::instance().current()->device;
  });
}

FAKE_API int cclmark_fake_architecture(int* architecture) {
  return guarded([&] {
    require(architecture != nullptr, kInvalidValue);
    *architecture = Driver::instance().architecture();
  });
}

FAKE_API int cclmark_fake_allocate(void** memory, size_t bytes) {
  return guarded([&] {
    require(memory != nullptr, kInvalidValue);
    std::shared_ptr<Context> context = Driver::instance().current();
    Driver::instance().refuse_during_capture();
    *memory = context->arena.allocate(bytes);
  });
}

FAKE_API int cclmark_fake_release(void* memory) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    driver.current();
    driver.refuse_during_capture();
    std::shared_ptr<Context> owner = driver.owner_of(memory, 1);
    // The driver waits for the device before it takes memory away.
    driver.drain(*owner);
    owner->arena.release(memory);
  });
}

}  // namespace fake_cuda
