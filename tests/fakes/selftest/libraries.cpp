#include "selftest/libraries.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "selftest/harness.hpp"

namespace selftest {

Library::Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ == nullptr) throw Failed(dlerror());
}

bool Library::has(const char* symbol) const {
  return dlsym(handle_, symbol) != nullptr;
}

void* Library::find(const char* symbol) const {
  void* address = dlsym(handle_, symbol);
  if (address == nullptr) throw Failed(std::string("no symbol ") + symbol);
  return address;
}

std::string cuda_path() {
  return FAKES_DIR "/libcuda.so.1";
}
std::string nvrtc_path() {
  return FAKES_DIR "/libnvrtc.so";
}
std::string nccl_path(bool old) {
  return old ? FAKES_DIR "/old/libnccl.so.2" : FAKES_DIR "/libnccl.so.2";
}

Gpu::Gpu(int device) : cuda(cuda_path()) {
  setenv("CCLMARK_CUDA_LIBRARY", cuda_path().c_str(), 1);
  CHECK_EQUAL(cuda("cuInit", 0u), 0);
  CHECK_EQUAL(cuda("cuDevicePrimaryCtxRetain", &context, device), 0);
  CHECK_EQUAL(cuda("cuCtxSetCurrent", context), 0);
  CHECK_EQUAL(cuda("cuStreamCreate", &stream, 1u), 0);
}

void* Gpu::allocate(size_t bytes) const {
  Address memory = 0;
  CHECK_EQUAL(cuda("cuMemAlloc_v2", &memory, bytes), 0);
  return reinterpret_cast<void*>(memory);
}

void Gpu::write(void* to, const void* host, size_t bytes) const {
  CHECK_EQUAL(cuda("cuMemcpyHtoD_v2", address(to), host, bytes), 0);
}

void Gpu::read(void* host, const void* from, size_t bytes) const {
  CHECK_EQUAL(cuda("cuMemcpyDtoH_v2", host, address(from), bytes), 0);
}

void Gpu::wait() const {
  constexpr int kNotReady = 600;
  int state;
  while ((state = cuda("cuStreamQuery", stream)) == kNotReady) {
  }
  CHECK_EQUAL(state, 0);
}

}  // namespace selftest
