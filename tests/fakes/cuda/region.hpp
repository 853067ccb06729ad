#pragma once

#include <sys/types.h>

#include <memory>

#include "cuda/addresses.hpp"

namespace fake_cuda {

struct Context;

constexpr int kHost = -1;

/// Where memory lies, and the context that it goes with, if any.
struct Memory {
  int device;  ///< kHost for pinned memory
  std::shared_ptr<Context> context;
  bool writable = true;  ///< by devices
};

/// Memory outside the arenas of devices, in one piece.
struct Region : Memory {
  Region(Memory memory, size_t page_bytes, size_t offset, size_t size)
      : Memory(std::move(memory)),
        addresses(page_bytes),
        first(addresses.first() + offset),
        bytes(size) {}

  Addresses addresses;
  std::byte* const first;
  const size_t bytes;
};

/// Host memory that stays the caller's and counts as pinned.
struct Registered : Memory {
  std::byte* first;
  size_t bytes;
  bool portable;  ///< other contexts may use it
};

/// An allocation of another process.
struct OpenedRegion : Region {
  struct Key {
    pid_t pid;
    unsigned serial;
    size_t offset;
    bool operator==(const Key&) const = default;
  };

  OpenedRegion(const Key& exported, Memory memory, size_t page_bytes, size_t offset, size_t size)
      : Region(std::move(memory), page_bytes, offset, size), key(exported) {}

  const Key key;
  unsigned users = 1;
};

}  // namespace fake_cuda
