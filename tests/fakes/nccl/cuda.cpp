#include "nccl/cuda.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "nccl/abi.hpp"

namespace fake_nccl {
namespace {

constexpr int kComputeMajor = 75;
constexpr int kComputeMinor = 76;

void check(int status, const char* call) {
  if (status == 0) return;
  throw Failure{kUnhandledCudaError,
                std::string(call) + " failed with CUresult " + std::to_string(status)};
}

/// The library may be local to whoever loaded it, so it is asked for by the name it was loaded by.
void* loaded_library() {
  const char* chosen = std::getenv("CCLMARK_CUDA_LIBRARY");
  void* library = dlopen(chosen != nullptr ? chosen : "libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  require(
      library != nullptr, kSystemError,
      "the fake NCCL needs the fake libcuda loaded, and CCLMARK_CUDA_LIBRARY to say from where");
  return library;
}

template <typename Function>
void resolve(Function*& function, void* library, const char* symbol) {
  function = reinterpret_cast<Function*>(dlsym(library, symbol));
  require(function != nullptr, kSystemError, "the libcuda that is loaded is not the fake one");
}

}  // namespace

const Cuda& Cuda::instance() {
  static const Cuda cuda;
  return cuda;
}

Cuda::Cuda() {
  void* library = loaded_library();
  resolve(enqueue_, library, "cclmark_fake_enqueue");
  resolve(locate_, library, "cclmark_fake_locate");
  resolve(current_device_, library, "cclmark_fake_current_device");
  resolve(attribute_, library, "cuDeviceGetAttribute");
  resolve(allocate_, library, "cuMemAlloc_v2");
  resolve(release_, library, "cuMemFree_v2");
}

int Cuda::current_device() const {
  int device = 0;
  check(current_device_(&device), "finding the current device");
  return device;
}

int Cuda::architecture(int device) const {
  int major = 0, minor = 0;
  check(attribute_(&major, kComputeMajor, device), "cuDeviceGetAttribute");
  check(attribute_(&minor, kComputeMinor, device), "cuDeviceGetAttribute");
  return 10 * major + minor;
}

void* Cuda::allocate(size_t bytes) const {
  unsigned long long address = 0;
  check(allocate_(&address, bytes), "cuMemAlloc");
  return reinterpret_cast<void*>(address);
}

void Cuda::release(void* memory) const {
  check(release_(reinterpret_cast<unsigned long long>(memory)), "cuMemFree");
}

Place Cuda::locate(const void* memory, size_t bytes) const {
  Place place{};
  int status = locate_(memory, bytes, &place.fd, &place.offset, &place.serial, &place.file_bytes);
  require(status == 0, kInvalidArgument, "the buffer is not device memory of this process");
  return place;
}

void Cuda::enqueue(void* stream, void (*fn)(void*), void* arg, void (*destroy)(void*)) const {
  check(enqueue_(stream, fn, arg, destroy), "enqueuing on the stream");
}

}  // namespace fake_nccl
