#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "nccl/operation.hpp"
#include "nccl/waiting.hpp"

namespace fake_nccl {

constexpr int kMostRanks = 32;

/// What a rank tells the others about the collective that it is in.
struct Announcement {
  Kind kind;
  Dtype dtype;
  Reduction reduction;
  int root;
  size_t count;
  Place send;
  Place receive;
  bool overlapping;  ///< send and receive buffer share memory
};

/// What a rank tells the others in a call that the host waits in.
struct Message {
  int color;
  int key;
  size_t bytes;
  UniqueId id;
};

/// A rank's part of the control segment; only that rank writes it.
struct alignas(64) Seat {
  std::atomic<int> pid{0};  ///< 0: nobody came yet
  std::atomic<bool> seated{false};
  size_t host{0};  ///< a hash of its name
  int device = 0;
  std::atomic<uint64_t> stream_phase{0};
  Announcement announcement{};
  std::atomic<uint64_t> host_phase{0};
  Message message{};
};

/// One transfer at a time from one rank to another.
struct alignas(64) Mailbox {
  std::atomic<uint64_t> posted{0};  ///< written by the sender
  std::atomic<uint64_t> taken{0};   ///< written by the receiver
  Place place{};
  size_t bytes = 0;
};

/// What the ranks of a communicator share.
struct Control {
  uint64_t nonce = 0;
  std::atomic<int> ranks{0};  ///< 0: nobody came yet
  Bell bell;                  ///< rings after each change
  std::array<Seat, kMostRanks> seats;
  std::array<std::array<Mailbox, kMostRanks>, kMostRanks> mail;  ///< [from][to]
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

/// Makes a control segment and keeps it for the life of the process: peers open it through this
/// process, so that nothing stays behind when all have gone.
UniqueId create_control();
/// Raises Failure when the id is not one or its maker is gone.
std::shared_ptr<Control> open_control(const UniqueId& id);

}  // namespace fake_nccl
