#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/clock.hpp"

namespace cclmark {

/// The ranks of one host, meeting in a piece of shared memory.
///
/// The launcher makes the memory (an anonymous memfd, so nothing can leak) and every rank maps it.
/// All zeros is the valid first state: no rank has to come first. A rank writes its own slot only.
///
/// The first byte of the memory is the abort flag. Whoever sets it, a rank or the launcher with a
/// plain write to the file, ends every wait of every rank with AbortedError.
class Team {
 public:
  /// Maps `fd`, growing it to the size needed. The descriptor stays the caller's.
  /// `oversubscribed`: ranks outnumber processors, so waits yield at once instead of spinning.
  Team(int fd, int rank, int size, bool oversubscribed);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool oversubscribed() const { return oversubscribed_; }

  /// How long the waits from now on may last. `doing` names the phase in messages.
  void expect_within(double seconds, std::string doing);
  /// To be called now and then by whoever waits for `peer` (-1: for a device). Raises AbortedError
  /// when a rank gave up, TimeoutError when the time granted is over.
  void check(int peer) const;

  /// Returns on every rank once every rank has called it.
  void barrier();
  /// Gives every rank's `values` to every rank: result[rank * values.size() + i]. A barrier too.
  std::vector<double> gather(std::span<const double> values);

  bool aborted() const;
  void abort() noexcept;

 private:
  struct Slot;
  static constexpr size_t kPayload = 2048;
  static constexpr size_t kHeaderBytes = 4096;
  static constexpr double kDefaultSeconds = 60;

  Slot& slot(int rank) const;

  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
  int rank_;
  int size_;
  bool oversubscribed_;
  uint64_t epoch_ = 0;
  Deadline deadline_{kDefaultSeconds};
  std::string doing_ = "start-up";
};

}  // namespace cclmark
