#pragma once

#include <cstddef>

namespace fake_cuda {

constexpr size_t kPageBytes = 4096;

size_t whole_pages(size_t bytes);
/// Fresh memory holds no zeros to rely on.
void poison(void* memory, size_t bytes);

/// Addresses that nothing else is given, untouchable until something is put there, and more so on
/// either side.
class Addresses {
 public:
  /// Raises Refusal when there are none.
  explicit Addresses(size_t bytes, size_t alignment = kPageBytes);
  ~Addresses();
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;

  std::byte* first() const { return first_; }
  size_t bytes() const { return bytes_; }

  /// Maps `length` bytes of a file there, or memory of this process when `fd` is -1; whole pages.
  /// Raises Refusal.
  void fill(size_t at, size_t length, int fd, size_t offset, bool accessible);
  /// Lets the bytes be touched, or not. Raises Refusal.
  void allow(size_t at, size_t length, bool accessible);
  void clear(size_t at, size_t length);

 private:
  std::byte* first_;
  size_t bytes_;
  std::byte* whole_;
  size_t whole_bytes_;
};

}  // namespace fake_cuda
