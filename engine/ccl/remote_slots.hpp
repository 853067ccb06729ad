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

#include "ccl/carrier.hpp"
#include "ccl/slots.hpp"
#include "core/team.hpp"

namespace cclmark {

/// The slots of ranks on other hosts, as if they were here.
///
/// Every far rank has a mirror on this host: a block like its own, into which what it publishes for
/// this rank is carried, and whose flags are set as it would set them. So whoever waits for flags,
/// a device's stream or the host, need not know. A thread of its own moves everything on: this
/// rank may be inside a library's call, where it waits for a rank that waits for what it sends.
class RemoteSlots {
 public:
  /// `carrier` is used by that thread alone from here on. `crowded`: whether it has to share a
  /// processor. `own`: this rank's block. `mirrors`: of each far rank, nullptr for those of this
  /// host.
  RemoteSlots(Carrier& carrier, Team& team, bool crowded, SlotLayout layout, std::byte* own,
              std::vector<std::byte*> mirrors);
  /// Gives what is still under way, as after a failure, a few seconds more.
  ~RemoteSlots();
  RemoteSlots(const RemoteSlots&) = delete;
  RemoteSlots& operator=(const RemoteSlots&) = delete;

  bool far(int rank) const { return mirrors_[static_cast<size_t>(rank)] != nullptr; }

  /// What this rank will publish as `sequence` goes to a far reader once the flag says so, and the
  /// reader's flag is set when its slot is free again.
  void send(int reader, uint32_t sequence, const std::byte* data, size_t bytes);
  /// What a far rank publishes as `sequence` is carried into the mirror's slot, `at` so far from
  /// its beginning, as soon as this rank has taken what was there before.
  void expect(int source, uint32_t sequence, size_t at, size_t bytes);

  /// Returns when all that was ordered has been sent and received. Raises what team.check() does.
  void drain();

  /// Raises what the carrier failed with. The team stops then, so that nobody waits in vain.
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
    size_t number;  ///< once it is being received
  };
  struct Source {
    std::deque<Incoming> expected;
    size_t begun = 0;  ///< how many of those are being received
    /// What has to be taken out of each slot before something else is received there.
    std::array<std::optional<uint32_t>, kSlots> in_slots;
  };

  void move_on();
  bool take_orders();
  bool progress();
  bool send_published();
  bool receive_from(size_t rank);

  Carrier& carrier_;
  Team& team_;
  bool crowded_;
  SlotLayout layout_;
  std::byte* own_;
  std::vector<std::byte*> mirrors_;

  std::mutex mutex_;
  std::condition_variable ordered_;
  std::vector<Outgoing> to_send_;  // orders that the thread has not seen
  std::vector<Incoming> to_receive_;
  uint64_t orders_ = 0;  // all there were so far
  std::exception_ptr failure_;
  bool ending_ = false;

  /// How many orders there had been when nothing was left of them.
  std::atomic<uint64_t> settled_ = 0;

  // The thread's own.
  uint64_t orders_seen_ = 0;
  std::deque<Outgoing> unsent_;
  std::vector<Sent> sent_;
  std::vector<Source> sources_;
  std::thread thread_;
};

}  // namespace cclmark
