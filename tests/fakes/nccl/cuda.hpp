#pragma once

#include <cstddef>

namespace fake_nccl {

/// Where memory lies for other processes.
struct Place {
  int fd;
  unsigned serial;
  size_t offset;
  size_t file_bytes;
};

/// The fake libcuda that this process has loaded already.
class Cuda {
 public:
  /// Raises Failure when there is none.
  static const Cuda& instance();

  int current_device() const;
  /// 10 × major + minor compute capability.
  int architecture(int device) const;
  void* allocate(size_t bytes) const;
  void release(void* memory) const;
  /// Raises Failure unless the range lies inside one allocation of this process.
  Place locate(const void* memory, size_t bytes) const;
  void enqueue(void* stream, void (*fn)(void*), void* arg, void (*destroy)(void*)) const;

 private:
  Cuda();

  int (*enqueue_)(void*, void (*)(void*), void*, void (*)(void*));
  int (*locate_)(const void*, size_t, int*, size_t*, unsigned*, size_t*);
  int (*current_device_)(int*);
  int (*attribute_)(int*, int, int);
  int (*allocate_)(unsigned long long*, size_t);
  int (*release_)(unsigned long long);
};

}  // namespace fake_nccl
