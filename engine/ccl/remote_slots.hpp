#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "ccl/host_exchange.hpp"
#include "ccl/slots.hpp"
#include "core/rank_group.hpp"

namespace cclmark {

/// The slots of ranks on other hosts, mirrored on this host.
///
/// Every far rank has a mirror on this host: a block with the layout of its own block. The data
/// that the far rank publishes for this rank is received into the mirror, and the mirror's flags
/// are set as the far rank would set them. Streams and host code therefore wait for near and far
/// ranks alike. A separate thread progresses all transfers, because this rank may be blocked inside
/// a library's call, waiting for a rank that waits for data from this rank.
class RemoteSlots {
 public:
  /// From here on only that thread uses `host_exchange`. `crowded`: whether the thread shares a
  /// processor with others. `own`: this rank's block. `mirrors`: the mirror of each far rank,
  /// nullptr for the other ranks.
  RemoteSlots(HostExchange& host_exchange, RankGroup& rank_group, bool crowded, SlotLayout layout,
              std::byte* own, std::vector<std::byte*> mirrors);
  /// Waits a few seconds at most for transfers in flight, which only a failed run leaves.
  ~RemoteSlots();
  RemoteSlots(const RemoteSlots&) = delete;
  RemoteSlots& operator=(const RemoteSlots&) = delete;

  bool far(int rank) const { return mirrors_[static_cast<size_t>(rank)] != nullptr; }

  /// Orders that publication `sequence` of this rank is sent to a far reader as soon as this rank's
  /// flag has reached that number. The reader's flag is set when the reader has taken the data.
  void send(int reader, uint32_t sequence, const std::byte* data, size_t bytes);
  /// Orders that publication `sequence` of a far rank is received into the mirror's slot, `at`
  /// bytes from its beginning, as soon as this rank has taken the slot's earlier content.
  void expect(int source, uint32_t sequence, size_t at, size_t bytes);

  /// Returns when all ordered transfers are complete. Raises the errors of check() and of
  /// rank_group.check().
  void drain();

  /// Raises the error of `host_exchange`. After such an error the rank group is aborted, so that no
  /// rank waits in vain.
  void check();

 private:
  struct Outgoing {
    int reader;
    uint32_t sequence;
    const std::byte* data;
    size_t bytes;
  };
  struct Sent {
    int reader;
    uint32_t sequence;
    size_t number;
  };
  struct Incoming {
    int source;
    uint32_t sequence;
    size_t at, bytes;
    size_t number;  ///< of the transfer, once it has begun
  };
  struct Source {
    std::deque<Incoming> expected;
    size_t begun = 0;  ///< the number of expected transfers that have begun
    /// The publication that this rank must take out of each slot before the next is received there.
    std::array<std::optional<uint32_t>, kSlots> in_slots;
  };

  void move_on();
  bool take_orders();
  bool progress();
  bool send_published();
  bool receive_from(size_t rank);

  HostExchange& host_exchange_;
  RankGroup& rank_group_;
  bool crowded_;
  SlotLayout layout_;
  std::byte* own_;
  std::vector<std::byte*> mirrors_;

  std::mutex mutex_;
  std::condition_variable ordered_;
  std::vector<Outgoing> to_send_;  // orders that the thread has not taken yet
  std::vector<Incoming> to_receive_;
  uint64_t orders_ = 0;  // the number of all orders so far
  std::exception_ptr failure_;
  bool ending_ = false;

  /// The number of orders taken when all of them were last complete.
  std::atomic<uint64_t> settled_ = 0;

  // Used only by the thread.
  uint64_t orders_seen_ = 0;
  std::deque<Outgoing> unsent_;
  std::vector<Sent> sent_;
  std::vector<Source> sources_;
  std::thread thread_;
};

}  // namespace cclmark
