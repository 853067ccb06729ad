#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/clock.hpp"

namespace cclmark {

/// What a rank does with the slots or announcements through which a library of the engine moves
/// data. src/cclmark/trace/slot_tracks.py has the same numbers.
enum class SlotAction : uint8_t {
  publish = 0,         ///< puts data into a slot or an announcement, and sets its flag
  read = 1,            ///< copies data that `peer` has published
  reduce = 2,          ///< reduces data that `peer` has published; of all ranks without a peer
  island = 3,          ///< does the work of its island: calls its library, or copies if it is alone
  wait_slot = 4,       ///< until `peer` has read what was in the slot before
  wait_published = 5,  ///< until `peer` has published
  wait_buffers = 6,    ///< until `peer` has finished with the buffers of this rank
  wait_device = 7,     ///< until the device has completed
};

/// One such period, in nanoseconds of the steady clock.
///
/// `sequence`: the number of the publication that is written, read or waited for, among those of
/// its rank and `group`. `peer`: the other rank, -1 for all or none. `group`: 0 for the
/// communicator of all ranks, from 1 on for its islands.
struct SlotEvent {
  int64_t begin_ns;
  int64_t end_ns;
  uint64_t sequence;
  uint64_t bytes;
  int32_t peer;
  uint16_t group;
  SlotAction action;
  uint8_t unused = 0;
};
static_assert(sizeof(SlotEvent) == 40);

/// The events of one rank, up to a limit. Written by the thread that calls the library.
class SlotRecorder {
 public:
  /// Allocates and touches the memory of `capacity` events.
  explicit SlotRecorder(size_t capacity) : events_(capacity) {}

  void add(const SlotEvent& event) noexcept {
    if (count_ == events_.size()) {
      ++dropped_;
    } else {
      events_[count_++] = event;
    }
  }
  void clear() noexcept { count_ = dropped_ = 0; }

  std::span<const SlotEvent> events() const { return {events_.data(), count_}; }
  /// The number of events that did not fit.
  size_t dropped() const { return dropped_; }

 private:
  std::vector<SlotEvent> events_;
  size_t count_ = 0;
  size_t dropped_ = 0;
};

/// Where a communicator records its events. Without a recorder, each step costs one comparison.
class SlotTap {
 public:
  SlotTap() = default;
  /// `first_rank`: the communicator's rank 0 among all ranks.
  SlotTap(SlotRecorder* recorder, int first_rank, uint16_t group)
      : recorder_(recorder), first_rank_(first_rank), group_(group) {}

  SlotRecorder* recorder() const { return recorder_; }
  bool records() const { return recorder_ != nullptr; }
  /// The begin of a period for add(); 0 without a recorder.
  int64_t begin() const { return records() ? now_ns() : 0; }
  void add(SlotAction action, int peer, uint64_t sequence, size_t bytes, int64_t begin_ns) const {
    if (!records()) return;
    const int of_all = peer < 0 ? -1 : first_rank_ + peer;
    recorder_->add({begin_ns, now_ns(), sequence, bytes, of_all, group_, action});
  }
  /// Calls `body` and records the period.
  template <typename Body>
  void during(SlotAction action, int peer, uint64_t sequence, size_t bytes,
              const Body& body) const {
    if (!records()) return body();
    const int64_t begin_ns = begin();
    body();
    add(action, peer, sequence, bytes, begin_ns);
  }

 private:
  SlotRecorder* recorder_ = nullptr;
  int first_rank_ = 0;
  uint16_t group_ = 0;
};

/// How the events of a communicator are to be read.
enum class SlotTimes : uint8_t {
  none,      ///< it has no slots, or does not record them
  executed,  ///< the periods are those of the work
  enqueued,  ///< the host only enqueues: waits on the device's streams are not recorded
};

}  // namespace cclmark
