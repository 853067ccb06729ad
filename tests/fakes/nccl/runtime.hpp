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

/// The fake runtime that this process has loaded already: libcuda, unless the build says otherwise.
class Runtime {
 public:
  /// Raises Failure when there is none.
  static const Runtime& instance();

  /// Of the runtime's library: devices of two vendors are never the same.
  const char* name() const;
  int current_device() const;
  /// 10 × major + minor compute capability.
  int architecture() const;
  void* allocate(size_t bytes) const;
  void release(void* memory) const;
  /// Raises Failure unless the range lies inside one allocation of this process.
  Place locate(const void* memory, size_t bytes) const;
  void enqueue(void* stream, void (*fn)(void*), void* arg, void (*destroy)(void*)) const;
  /// What only one vendor's runtime exports. Raises Failure.
  void* find(const char* symbol) const;

 private:
  Runtime();

  void* library_;

  int (*enqueue_)(void*, void (*)(void*), void*, void (*)(void*));
  int (*locate_)(const void*, size_t, int*, size_t*, unsigned*, size_t*);
  int (*current_device_)(int*);
  int (*architecture_)(int*);
  int (*allocate_)(void**, size_t);
  int (*release_)(void*);
};

}  // namespace fake_nccl
