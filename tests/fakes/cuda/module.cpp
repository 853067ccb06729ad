#include "cuda/module.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "cuda/image.hpp"
#include "cuda/status.hpp"

namespace fake_cuda {
namespace {

/// The header, once it is sure that there is one: a caller may hand in any short string.
ImageHeader read_header(const void* image) {
  auto bytes = static_cast<const char*>(image);
  for (size_t i = 0; i < sizeof(kImageMagic); ++i) {
    require(bytes[i] == kImageMagic[i], kInvalidImage);
  }
  ImageHeader header;
  std::memcpy(&header, image, sizeof(header));
  return header;
}

/// Where kernels keep the indices of the launch that their thread runs. A thread_local variable in
/// an image that is loaded late, and of a thread that ends late, trips the leak sanitizer.
pthread_key_t indices_key() {
  static const pthread_key_t key = [] {
    pthread_key_t created = 0;
    require(pthread_key_create(&created, nullptr) == 0, kOutOfMemory);
    return created;
  }();
  return key;
}

bool write_all(int fd, const std::byte* data, size_t bytes) {
  while (bytes > 0) {
    ssize_t written = write(fd, data, bytes);
    if (written <= 0) return false;
    data += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

}  // namespace

Module::Module(std::shared_ptr<Context> owner, const void* image, int architecture)
    : context(std::move(owner)) {
  require(image != nullptr, kInvalidValue);
  ImageHeader header = read_header(image);
  bool runs_anywhere = header.architecture == 0;
  bool runs_here = header.architecture / 10 == architecture / 10 &&
                   header.architecture % 10 <= architecture % 10;
  require(runs_anywhere || runs_here, kNoBinaryForGpu);
  // The file stays open as long as the library is loaded: the loader takes a path that it has seen
  // for the same library.
  fd_ = memfd_create("cclmark-fake-module", MFD_CLOEXEC);
  require(fd_ >= 0, kOutOfMemory);
  auto object = static_cast<const std::byte*>(image) + sizeof(header);
  if (write_all(fd_, object, header.object_bytes)) {
    library_ = dlopen(("/proc/self/fd/" + std::to_string(fd_)).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library_ == nullptr) {
    close(fd_);
    throw Refusal{kInvalidImage};
  }
}

Module::~Module() {
  dlclose(library_);
  close(fd_);
}

const FakeKernelEntry& Module::entry(const std::string& name) const {
  void* symbol = dlsym(library_, (FAKE_KERNEL_ENTRY_PREFIX + name).c_str());
  require(symbol != nullptr, kNotFound);
  return *static_cast<const FakeKernelEntry*>(symbol);
}

Work make_launch(std::shared_ptr<Function> function, FakeExtent grid, FakeExtent block,
                 void* const* parameters) {
  const FakeKernelEntry& entry = function->entry;
  require(parameters != nullptr || entry.parameter_count == 0, kInvalidValue);
  std::vector<std::vector<std::byte>> copies;
  for (unsigned i = 0; i < entry.parameter_count; ++i) {
    require(parameters[i] != nullptr, kInvalidValue);
    auto first = static_cast<const std::byte*>(parameters[i]);
    copies.emplace_back(first, first + entry.parameter_bytes[i]);
  }
  return std::make_shared<const std::function<void()>>(
      [function = std::move(function), grid, block, copies = std::move(copies)] {
        std::vector<void*> pointers;
        for (const auto& copy : copies) pointers.push_back(const_cast<std::byte*>(copy.data()));
        function->entry.run(grid, block, pointers.data(), indices_key());
      });
}

}  // namespace fake_cuda
