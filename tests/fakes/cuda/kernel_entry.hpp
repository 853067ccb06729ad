// What a fake image says of each of its kernels. Read by the fake libcuda and, as text, compiled
// into every image by the fake NVRTC, so it includes nothing.
#pragma once

struct FakeExtent {
  unsigned x, y, z;
};

struct FakeKernelEntry {
  unsigned parameter_count;
  const unsigned long* parameter_bytes;
  /// Runs every thread of every block, one after the other. `key` is one of pthread_key_create(),
  /// the same each time; it leads the kernel to its indices.
  void (*run)(FakeExtent grid, FakeExtent block, void* const* parameters, unsigned key);
};

/// The entry of kernel `name` is called this followed by `name`.
#define FAKE_KERNEL_ENTRY_PREFIX "cclmark_fake_entry_"
