#include "cuda/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "cuda/addresses.hpp"
#include "cuda/status.hpp"

namespace fake_cuda {
namespace {

constexpr size_t kAlignmentBytes = 512;
/// Addresses are plenty; with more of them than memory, they come round late.
constexpr size_t kAddressesPerByte = 4;

unsigned next_serial() {
  static std::atomic<unsigned> last{0};
  return ++last;
}

}  // namespace

Arena::Arena(size_t memory_bytes, const std::atomic<size_t>& pledged)
    : memory_bytes_(memory_bytes),
      pledged_(pledged),
      file_bytes_(whole_pages(memory_bytes) * kAddressesPerByte),
      serial_(next_serial()) {
  fd_ = memfd_create("cclmark-fake-device", MFD_CLOEXEC);
  require(fd_ >= 0, kOutOfMemory);
  void* memory = MAP_FAILED;
  if (ftruncate(fd_, static_cast<off_t>(file_bytes_)) == 0) {
    memory = mmap(nullptr, file_bytes_, PROT_NONE, MAP_SHARED, fd_, 0);
  }
  if (memory == MAP_FAILED) {
    close(fd_);
    throw Refusal{kOutOfMemory};
  }
  base_ = static_cast<std::byte*>(memory);
}

Arena::~Arena() {
  munmap(base_, file_bytes_);
  close(fd_);
}

/// The first offset from `from` on with `page_bytes` free and a page between neighbours.
std::optional<size_t> Arena::find_gap(size_t page_bytes, size_t from) const {
  size_t candidate = from;
  for (const auto& [first, block] : blocks_) {
    size_t end = first + block.page_bytes + kPageBytes;
    if (end <= candidate) continue;
    if (first >= candidate + page_bytes + kPageBytes) return candidate;
    candidate = end;
  }
  if (candidate + page_bytes + kPageBytes <= file_bytes_) return candidate;
  return std::nullopt;
}

void* Arena::allocate(size_t bytes) {
  require(bytes > 0, kInvalidValue);
  std::lock_guard lock(mutex_);
  require(bytes <= memory_bytes_, kOutOfMemory);
  size_t page_bytes = whole_pages(bytes);
  require(page_bytes + used_bytes_ + pledged_ <= memory_bytes_, kOutOfMemory);
  std::optional<size_t> first = find_gap(page_bytes, cursor_);
  if (!first) first = find_gap(page_bytes, 0);
  require(first.has_value(), kOutOfMemory);
  require(mprotect(base_ + *first, page_bytes, PROT_READ | PROT_WRITE) == 0, kOutOfMemory);

  size_t data = *first + (page_bytes - bytes) / kAlignmentBytes * kAlignmentBytes;
  blocks_[*first] = {page_bytes, data, bytes, *first};
  used_bytes_ += page_bytes;
  cursor_ = *first + page_bytes + kPageBytes;
  poison(base_ + data, bytes);
  return base_ + data;
}

void Arena::release(void* memory) {
  std::lock_guard lock(mutex_);
  auto entry = std::find_if(blocks_.begin(), blocks_.end(), [&](const auto& candidate) {
    return base_ + candidate.second.data == memory;
  });
  require(entry != blocks_.end(), kInvalidValue);
  size_t first = entry->first, page_bytes = entry->second.page_bytes;
  mprotect(base_ + first, page_bytes, PROT_NONE);
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
            static_cast<off_t>(page_bytes));
  used_bytes_ -= page_bytes;
  blocks_.erase(entry);
}

bool Arena::contains(const void* memory) const {
  auto address = reinterpret_cast<uintptr_t>(memory);
  auto base = reinterpret_cast<uintptr_t>(base_);
  return address >= base && address - base < file_bytes_;
}

std::optional<Arena::Block> Arena::block_at(const void* memory, size_t bytes) const {
  if (!contains(memory)) return std::nullopt;
  auto offset = static_cast<size_t>(static_cast<const std::byte*>(memory) - base_);
  std::lock_guard lock(mutex_);
  auto next = blocks_.upper_bound(offset);
  if (next == blocks_.begin()) return std::nullopt;
  const Block& block = std::prev(next)->second;
  if (offset < block.data || offset - block.data >= block.bytes) return std::nullopt;
  if (bytes > block.bytes - (offset - block.data)) return std::nullopt;
  return block;
}

std::optional<size_t> Arena::offset_of(const void* memory, size_t bytes) const {
  if (!block_at(memory, bytes)) return std::nullopt;
  return static_cast<size_t>(static_cast<const std::byte*>(memory) - base_);
}

size_t Arena::free_bytes() const {
  std::lock_guard lock(mutex_);
  size_t taken = used_bytes_ + pledged_;
  return taken < memory_bytes_ ? memory_bytes_ - taken : 0;
}

}  // namespace fake_cuda
