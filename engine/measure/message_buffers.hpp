#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ccl/communicator.hpp"
#include "collective/table.hpp"
#include "core/rank_group.hpp"
#include "device/device.hpp"
#include "measure/checker.hpp"

namespace cclmark {

/// Bytes that an operation needs in the send and in the receive buffer, the same on every rank.
struct Room {
  size_t send_bytes;
  size_t receive_bytes;
};
Room room_for(const Operation& operation, bool in_place, int ranks);

/// The send and the receive buffer of one rank, registered with its library.
///
/// Both are divided into slots, each large enough for one operation. Consecutive operations use
/// consecutive slots, so that small messages do not stay in the cache.
class MessageBuffers {
 public:
  struct Region {
    std::byte* data;
    size_t bytes;
  };
  /// The addresses passed to the library for one slot.
  struct Ends {
    const std::byte* source;
    std::byte* to;
  };

  MessageBuffers(Device& device, RankGroup& rank_group, Communicator& communicator);
  ~MessageBuffers();
  MessageBuffers(const MessageBuffers&) = delete;
  MessageBuffers& operator=(const MessageBuffers&) = delete;

  /// Whether the buffers have this room, and the spare room against caches, already.
  bool suffice(const Room& room, const BufferKind& kind) const;
  /// Replaces the buffers by buffers with this room, and more where that keeps small messages from
  /// staying in the cache. A collective call. Raises OutOfMemoryError, UnsupportedError.
  void allocate(const Room& room, const BufferKind& kind);

  /// Divides the buffers into slots for an operation. Raises Error if it does not fit.
  void divide(const Operation& operation, bool in_place);
  /// Fills both buffers with inputs of the operation, unless they contain inputs of its kind.
  void fill(const Operation& operation, Checker& checker);

  /// The input and the output of the operation in the first slot.
  const Region& input() const { return input_; }
  const Region& output() const { return output_; }

  /// Starts again from the first slot. `warm`: every operation uses that slot.
  void restart(bool warm) {
    turn_ = 0;
    used_slots_ = warm ? 1 : slots_;
  }
  size_t used_slots() const { return used_slots_; }
  /// The slot of the next operation.
  size_t next_slot() {
    size_t slot = turn_;
    turn_ = slot + 1 < used_slots_ ? slot + 1 : 0;
    return slot;
  }
  Ends ends(size_t slot) const {
    return {source_ + slot * source_stride_, output_.data + slot * receive_stride_};
  }

  /// The two buffers, with what the operation that they are divided for uses of them. The texts:
  /// the first elements of the input and of the expected output.
  std::vector<MemoryBlock> memory_blocks(const std::string& input_values,
                                         const std::string& output_values) const;

  /// Whether the input is copied aside before each operation.
  bool is_staged() const { return is_staged_; }
  /// Enqueues the copy of a slot's input to its source in ends().
  void stage(size_t slot, void* stream);

 private:
  Room with_spare(const Room& room) const;
  std::byte* allocate(size_t bytes);
  void release(std::byte* memory) noexcept;
  void release() noexcept;

  Device& device_;
  RankGroup& rank_group_;
  Communicator& communicator_;

  std::byte* send_ = nullptr;
  std::byte* receive_ = nullptr;
  Room capacity_{};
  BufferKind kind_;
  std::string filled_with_;

  bool is_staged_ = false;
  bool in_place_ = false;
  Region input_{}, output_{};
  const std::byte* source_ = nullptr;
  size_t source_stride_ = 0;
  size_t send_stride_ = 0;
  size_t receive_stride_ = 0;
  size_t slots_ = 1;
  size_t used_slots_ = 1;  ///< by the current batch
  size_t turn_ = 0;
};

}  // namespace cclmark
