#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cclmark {

/// Slots of a rank: what it publishes goes through them in turns.
inline constexpr size_t kSlots = 4;

/// How a rank's flags and slots lie in a block of host memory. Offsets are in bytes.
///
/// What a rank has published is counted by one flag; one per slot and reader says what that reader
/// has taken out of it last. Numbers grow and wrap.
struct SlotLayout {
  int ranks;
  size_t slot_bytes;

  static size_t ready() { return 0; }
  static size_t taken(int reader, uint32_t sequence) {
    return kLineBytes * (1 + static_cast<size_t>(reader)) + sequence % kSlots * sizeof(uint32_t);
  }
  /// Where the slots begin.
  size_t flag_bytes() const { return (taken(ranks, 0) + kPageBytes - 1) / kPageBytes * kPageBytes; }
  /// Of a publication's slot among the slots.
  size_t place(uint32_t sequence) const { return sequence % kSlots * slot_bytes; }

 private:
  static constexpr size_t kLineBytes = 64;
  static constexpr size_t kPageBytes = 4096;
};

inline std::atomic_ref<uint32_t> flag_at(std::byte* block, size_t offset) {
  return std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(block + offset));
}
/// Whether a flag has reached a value.
inline bool reached(std::byte* block, size_t offset, uint32_t value) {
  return static_cast<int32_t>(flag_at(block, offset).load(std::memory_order_acquire) - value) >= 0;
}
inline void raise_flag(std::byte* block, size_t offset, uint32_t value) {
  flag_at(block, offset).store(value, std::memory_order_release);
}

}  // namespace cclmark
