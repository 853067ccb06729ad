#pragma once

#include <sys/mman.h>

#include <cstdint>

namespace cclmark::plugin {

/// The handles that NCCL gets for events.
///
/// The handle of a recorded event is the address of a place that belongs to its record and contains
/// the other plug-in's handle of the same event. Places are never reused, since NCCL uses handles
/// as parents after their events have stopped. Events without a record have the other plug-in's own
/// handle: so it receives all of its events when the log is full.
class Handles {
 public:
  /// Reserves addresses for `records`; memory is used as records are written.
  explicit Handles(std::uint64_t records) {
    void* reserved = mmap(nullptr, records * sizeof(void*), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (records != 0 && reserved != MAP_FAILED) {
      places_ = static_cast<void**>(reserved);
      records_ = records;
    }
  }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  bool is_valid() const { return places_ != nullptr; }

  /// The handle of an event with the record `number`, 0: none, and the handle `others` of the other
  /// plug-in, nullptr: none.
  void* make(std::uint64_t number, void* others) {
    if (number == 0) {
      return others != nullptr ? others : &unrecorded_;
    }
    if (others != nullptr) {  // otherwise the page remains untouched
      places_[number - 1] = others;
    }
    return places_ + (number - 1);
  }

  /// The number of the event's record, 0: none.
  std::uint64_t number(const void* handle) const {
    const auto offset =
        reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(places_);
    const std::uint64_t index = offset / sizeof(void*);
    return index < records_ ? index + 1 : 0;
  }

  /// The other plug-in's handle of the event, nullptr: none.
  void* others(void* handle) const {
    if (const std::uint64_t found = number(handle); found != 0) {
      return places_[found - 1];
    }
    return handle == &unrecorded_ ? nullptr : handle;
  }

 private:
  void** places_ = nullptr;
  std::uint64_t records_ = 0;
  char unrecorded_ = 0;  // NCCL must get a handle: it leaves out events within an event without one
};

}  // namespace cclmark::plugin
