#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "plugin/event_log.hpp"

namespace cclmark::plugin {

/// Times of an operation's kernels, behind its record in the log. Updated in place.
///
/// A call counts when its kernel has ended on all channels. Its time is that from the first
/// channel's begin to the last channel's end, by the device's global timer.
struct KernelTimes {
  std::uint32_t kind;
  std::uint32_t unused;
  std::uint64_t operation;  // number of the operation's record
  std::atomic<std::uint64_t> calls;
  std::atomic<std::uint64_t> total_ns;
  std::atomic<std::uint64_t> least_ns;
  std::atomic<std::uint64_t> most_ns;
  std::atomic<std::uint64_t> elements;  // of all calls that ran, also of those without times
  std::uint64_t reserved[9];
};
static_assert(sizeof(KernelTimes) == sizeof(Record));

/// What a program calls, counted instead of listed: a log of a long job stays small.
///
/// The log contains a record for each distinct call of the library's API (RecordKind::called) and
/// for each distinct operation that ran (RecordKind::operation, followed by its KernelTimes), which
/// count in place, and one record for each call that ran (RecordKind::call) while there is room:
/// the totals are complete also where the list of calls is not. Functions are thread-safe.
///
/// A program may call with any number of distinct counts. From `kMostExact` records on, a new
/// record stands for all counts from a power of two to the next, and its `warps` is 1. Events that
/// would need more than `kMostDistinct` are counted as lost.
class CallProfile {
 public:
  /// An operation whose kernels may still run.
  struct alignas(64) Running {
    std::atomic<std::uint64_t> begin_ns;
    std::atomic<std::uint64_t> end_ns;
    std::atomic<std::uint32_t> ended;
    std::uint32_t channels;  // 0: the library reports no kernels of it
    KernelTimes* times;
    Record* call;  // nullptr: not listed
  };

  /// The profile of this process; nullptr if its memory or its log is missing.
  static CallProfile* instance();

  /// Counts a call of the API. `described` has the call's arguments and its stream in `device_ns`.
  /// Returns the handle of the event, which stays valid: a captured graph uses it at each launch.
  void* count_call(Record described, bool is_captured);

  /// Counts an operation that runs. `described` is its record as a log of events has it. `parent`:
  /// the handle of its call, which may be nullptr.
  void* count_operation(Record described, const void* parent);

  /// A kernel of the operation `parent` begins on a channel. Returns the handle of the event.
  void* begin_kernel(void* parent, std::uint64_t device_ns);

  /// The kernel ends on a channel. Other handles are ignored.
  void end_kernel(void* handle, std::uint64_t device_ns);

  /// Whether a handle is one of this profile.
  bool is_own(const void* handle) const;

 private:
  static constexpr std::uint64_t kRunning = 1 << 16;  // more than any device can have enqueued
  static constexpr std::uint64_t kSlots = 1 << 15;    // of the table of distinct records
  static constexpr std::uint64_t kMostDistinct = kSlots / 4 * 3;
  static constexpr std::uint64_t kMostExact = 1 << 12;
  static constexpr std::uint64_t kReserved = 3 << 13;  // records for all that is not a call

  /// The place of a called record, whose address is the handle of its calls.
  struct Called {
    std::uint64_t number;
  };

  CallProfile(EventLog& log, Running* running, Called* called, std::uint64_t* table);
  std::uint64_t find_or_add(Record& described);
  std::uint64_t find(const Record& described, std::uint64_t& slot) const;
  std::uint64_t add(const Record& described, std::uint64_t slot);
  Record* list(const Record& call);
  Running* running_of(const void* handle) const;
  std::uint64_t called_number(const void* handle) const;

  EventLog& log_;
  Running* running_;
  Called* called_;
  std::uint64_t* table_;  // numbers of records, 0: empty
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> listed_{0};
  std::uint64_t distinct_ = 0;
  std::uint64_t called_count_ = 0;
  std::mutex mutex_;
};

/// The handles of two plug-ins for the same events, where both have one.
///
/// Pairs are never reused, since NCCL uses handles as parents after their events have stopped. When
/// all are in use (CCLMARK_PLUGIN_PAIRS), an event has the other plug-in's handle alone, and the
/// log's header reports that events may lack their parents.
class HandlePairs {
 public:
  HandlePairs();

  /// Whether CCLMARK_PLUGIN_PAIRS is invalid, so that the usual capacity applies.
  static bool has_invalid_capacity();

  /// The handle for NCCL of an event with these handles, of which each may be nullptr.
  void* make(void* own, void* others);
  /// This plug-in's handle, nullptr if there is none.
  void* own(void* handle) const;
  /// The other plug-in's handle, nullptr if there is none.
  void* others(void* handle) const;

 private:
  struct Pair {
    void* own;
    void* others;
  };
  static constexpr std::uint64_t kUsualPairs = 1 << 24;  // memory is used as they are made
  static constexpr std::uint64_t kMostPairs = 1 << 30;

  static std::uint64_t wanted_capacity();
  const Pair* find(const void* handle) const;

  const std::uint64_t capacity_;
  Pair* const pairs_;
  std::atomic<std::uint64_t> next_{0};
  char unrecorded_ = 0;  // NCCL must get a handle: it leaves out events within an event without one
};

}  // namespace cclmark::plugin
