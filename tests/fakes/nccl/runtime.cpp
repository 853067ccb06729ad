#include "nccl/runtime.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "nccl/abi.hpp"

namespace fake_nccl {
namespace {

#ifndef CCLMARK_FAKE_RUNTIME_VARIABLE
#define CCLMARK_FAKE_RUNTIME_VARIABLE "CCLMARK_CUDA_LIBRARY"
#define CCLMARK_FAKE_RUNTIME_NAME "libcuda.so.1"
#endif

void check(int status, const char* call) {
  if (status == 0) return;
  throw Failure{kUnhandledCudaError, std::string(call) + " failed with " + std::to_string(status)};
}

/// The library may be local to whoever loaded it, so it is asked for by the name it was loaded by.
void* loaded_library() {
  const char* chosen = std::getenv(CCLMARK_FAKE_RUNTIME_VARIABLE);
  void* library =
      dlopen(chosen != nullptr ? chosen : CCLMARK_FAKE_RUNTIME_NAME, RTLD_NOW | RTLD_NOLOAD);
  require(library != nullptr, kSystemError,
          "this fake needs the fake " CCLMARK_FAKE_RUNTIME_NAME
          " loaded, and " CCLMARK_FAKE_RUNTIME_VARIABLE " to say from where");
  return library;
}

template <typename Function>
void resolve(Function*& function, void* library, const char* symbol) {
  function = reinterpret_cast<Function*>(dlsym(library, symbol));
  require(function != nullptr, kSystemError, "the runtime that is loaded is not the fake one");
}

}  // namespace

const Runtime& Runtime::instance() {
  static const Runtime runtime;
  return runtime;
}

const char* Runtime::name() const {
  return CCLMARK_FAKE_RUNTIME_NAME;
}

Runtime::Runtime() : library_(loaded_library()) {
  resolve(enqueue_, library_, "cclmark_fake_enqueue");
  resolve(locate_, library_, "cclmark_fake_locate");
  resolve(current_device_, library_, "cclmark_fake_current_device");
  resolve(architecture_, library_, "cclmark_fake_architecture");
  resolve(allocate_, library_, "cclmark_fake_allocate");
  resolve(release_, library_, "cclmark_fake_release");
}

void* Runtime::find(const char* symbol) const {
  void* found = nullptr;
  resolve(found, library_, symbol);
  return found;
}

int Runtime::current_device() const {
  int device = 0;
  check(current_device_(&device), "finding the current device");
  return device;
}

int Runtime::architecture() const {
  int value = 0;
  check(architecture_(&value), "finding the architecture");
  return value;
}

void* Runtime::allocate(size_t bytes) const {
  void* memory = nullptr;
  check(allocate_(&memory, bytes), "allocating");
  return memory;
}

void Runtime::release(void* memory) const {
  check(release_(memory), "releasing");
}

Place Runtime::locate(const void* memory, size_t bytes) const {
  Place place{};
  int status = locate_(memory, bytes, &place.fd, &place.offset, &place.serial, &place.file_bytes);
  require(status == 0, kInvalidArgument, "the buffer is not device memory of this process");
  return place;
}

void Runtime::enqueue(void* stream, void (*fn)(void*), void* arg, void (*destroy)(void*)) const {
  check(enqueue_(stream, fn, arg, destroy), "enqueuing on the stream");
}

}  // namespace fake_nccl
