#include "cuda/addresses.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cuda/status.hpp"

namespace fake_cuda {
namespace {

constexpr int kPoison = 0xc5;
constexpr size_t kMostPoisonedBytes = size_t{1} << 20;

int protection(bool accessible) {
  return accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
}

}  // namespace

size_t whole_pages(size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

void poison(void* memory, size_t bytes) {
  std::memset(memory, kPoison, std::min(bytes, kMostPoisonedBytes));
}

Addresses::Addresses(size_t bytes, size_t alignment)
    : bytes_(whole_pages(bytes)), whole_bytes_(bytes_ + alignment + kPageBytes) {
  void* whole =
      mmap(nullptr, whole_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(whole != MAP_FAILED, kOutOfMemory);
  whole_ = static_cast<std::byte*>(whole);
  // One byte at least before the first.
  size_t before = alignment - reinterpret_cast<uintptr_t>(whole_) % alignment;
  first_ = whole_ + before;
}

Addresses::~Addresses() {
  munmap(whole_, whole_bytes_);
}

void Addresses::fill(size_t at, size_t length, int fd, size_t offset, bool accessible) {
  int kind = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* filled = mmap(first_ + at, length, protection(accessible), kind | MAP_FIXED, fd,
                      static_cast<off_t>(offset));
  require(filled != MAP_FAILED, fd < 0 ? kOutOfMemory : kMapFailed);
}

void Addresses::allow(size_t at, size_t length, bool accessible) {
  require(mprotect(first_ + at, length, protection(accessible)) == 0, kOutOfMemory);
}

void Addresses::clear(size_t at, size_t length) {
  mmap(first_ + at, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
       0);
}

}  // namespace fake_cuda
