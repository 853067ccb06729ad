#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/memory_block.hpp"

namespace cclmark {

/// The ranks of a run, which synchronise in shared memory, and between hosts through a function
/// that exchanges values.
///
/// Each host's supervisor creates the memory (an anonymous memfd, so nothing can leak) and every
/// rank there maps it. All zeros is the valid first state: no rank has to come first. A rank writes
/// its own slot; the first of a host also those of the ranks elsewhere, once the value exchange has
/// returned: so all others wait for near and far ranks alike.
///
/// The first byte of the memory is the abort flag. Whoever sets it, a rank or the launcher with a
/// plain write to the file, ends every wait of every rank with AbortedError.
class RankGroup {
 public:
  /// Takes the values of the members on this host, as many for each, to the other hosts of
  /// `members`, and returns those of all members in their order. Waits for all hosts to have sent
  /// theirs; keeps calling check(kElsewhere) meanwhile, and raises what that does.
  using HostValueExchange = std::function<std::vector<double>(const std::vector<int>& members,
                                                              const std::vector<double>& own)>;
  static constexpr int kDevice = -1;
  static constexpr int kElsewhere = -2;

  struct Options {
    int fd = -1;  ///< of the memory; the caller keeps the descriptor
    int rank = 0;
    int size = 1;
    /// Ranks outnumber processors, so waits yield at once instead of spinning.
    bool oversubscribed = false;
    /// A number for the host of each rank; empty if all ranks are on one host.
    std::vector<int> hosts = {};
    /// Required if the ranks are on several hosts.
    HostValueExchange value_exchange = nullptr;
  };

  /// Maps the memory and grows it to the required size. Raises Error.
  explicit RankGroup(const Options& options);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  /// Some of these ranks among themselves, in places of their own in the same memory: they meet
  /// without the others, and stop when the whole rank group does. `members` are the numbers of the
  /// ranks, this one's among them; messages go on calling them so. `first_slot`: slots of the
  /// memory that are taken, by this rank group and by other subgroups at the same time.
  /// `value_exchange`: its own way between hosts, where another subgroup of the same members is
  /// used at the same time.
  std::unique_ptr<RankGroup> subgroup(int fd, const std::vector<int>& members, size_t first_slot,
                                      HostValueExchange value_exchange = nullptr) const;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// The number by which messages call a rank: that of the group that this one is part of.
  int number_of(int rank) const { return numbers_[static_cast<size_t>(rank)]; }
  bool oversubscribed() const { return oversubscribed_; }
  /// Whether a rank of this group is on the same host as this one.
  bool here(int rank) const { return here_[static_cast<size_t>(rank)]; }
  /// Whether all ranks are on one host.
  bool on_one_host() const;
  /// Whether this group is part of another one.
  bool is_subgroup() const { return first_slot_ > 0; }

  /// Whether this rank has nothing to do while others measure: its waits then sleep, so that they
  /// take nothing from those who work.
  void rest(bool resting) { resting_ = resting; }

  /// Sets the limit of subsequent waits. `doing` names the phase in messages.
  void expect_within(double seconds, std::string doing);
  /// Must be called periodically while waiting for `peer`, or kDevice. Raises AbortedError if a
  /// rank has aborted, TimeoutError when the limit has passed.
  void check(int peer) const;

  /// Returns on every rank once every rank has called it.
  void barrier();
  /// Sends every rank's `values` to every rank: result[rank * values.size() + i]. A barrier too.
  std::vector<double> gather(std::span<const double> values);
  /// The first `kTextBytes` bytes of the text of `rank`, on every rank: result of its `own`.
  std::string text_of(int rank, std::string own);
  static constexpr size_t kTextBytes = 2048;

  bool aborted() const;
  void abort() noexcept;

  /// The memory in which the ranks of this host meet, which the supervisor has created.
  MemoryBlock memory_block() const {
    return {.purpose = "barriers and values of all ranks",
            .place = MemoryPlace::shared_host,
            .bytes = bytes_,
            .address = memory_,
            .mapped = true};
  }

 private:
  struct Slot;
  static constexpr size_t kPayload = 2048;
  static constexpr size_t kHeaderBytes = 4096;
  static constexpr double kDefaultSeconds = 60;

  /// `numbers`: the numbers of the ranks in messages, whose count replaces the size in `options`.
  RankGroup(const Options& options, size_t first_slot, std::vector<int> numbers);

  Slot& slot(int rank) const;
  /// Returns once every rank has called it; `count` values in everybody's payload go to all.
  void meet(size_t count);
  void fetch(size_t count);

  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
  size_t first_slot_;
  std::vector<int> numbers_;  // what messages call the ranks
  std::vector<int> hosts_;    // by number, not by place in this group
  HostValueExchange value_exchange_;
  std::vector<bool> here_;
  bool fetches_ = false;  // whether this rank calls the value exchange for those of its host
  int rank_;
  int size_;
  bool oversubscribed_;
  bool resting_ = false;
  uint64_t epoch_ = 0;
  Deadline deadline_{kDefaultSeconds};
  std::string doing_ = "start-up";
};

}  // namespace cclmark
