#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>

namespace fake_cuda {

/// The memory of one device: a file in memory that other processes can map through /proc.
///
/// Only what is allocated can be touched. Allocations end close to a page that cannot, so a kernel
/// that runs past one dies; and addresses are used again as late as possible, so that work on freed
/// memory is noticed.
class Arena {
 public:
  /// `pledged` bytes of the memory are not to be allocated.
  Arena(size_t memory_bytes, const std::atomic<size_t>& pledged);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Raises Refusal when the device's memory is used up. The memory holds no zeros to rely on.
  void* allocate(size_t bytes);
  /// Raises Refusal for anything but what allocate() returned.
  void release(void* memory);
  struct Block {
    size_t page_bytes;  ///< whole pages
    size_t data;        ///< offset of the first byte in the file
    size_t bytes;
    size_t first;  ///< offset of the first page
  };
  /// The allocation that the whole range lies in.
  std::optional<Block> block_at(const void* memory, size_t bytes) const;
  /// The offset in the file, when the range lies inside one allocation.
  std::optional<size_t> offset_of(const void* memory, size_t bytes) const;
  /// Whether the address is one of the device's, allocated or not.
  bool contains(const void* memory) const;
  size_t free_bytes() const;

  int fd() const { return fd_; }
  unsigned serial() const { return serial_; }
  size_t file_bytes() const { return file_bytes_; }

 private:
  std::optional<size_t> find_gap(size_t page_bytes, size_t from) const;

  const size_t memory_bytes_;
  const std::atomic<size_t>& pledged_;
  const size_t file_bytes_;
  const unsigned serial_;
  int fd_ = -1;
  std::byte* base_ = nullptr;

  mutable std::mutex mutex_;
  std::map<size_t, Block> blocks_;  ///< by the offset of their first page
  size_t used_bytes_ = 0;
  size_t cursor_ = 0;
};

}  // namespace fake_cuda
