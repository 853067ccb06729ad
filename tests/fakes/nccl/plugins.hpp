#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "nccl/operation.hpp"

namespace fake_nccl {

/// Tells the plug-ins that NCCL_PROFILER_PLUGIN and NCCL_TUNER_PLUGIN name what a communicator
/// does, by the newest interfaces that both the claimed version and the plug-in have, and writes
/// the lines that NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=TUNING and INIT asks for.
class Plugins {
 public:
  /// Raises Failure with the last warning if the tuner's init fails.
  Plugins(uint64_t communicator, int ranks, int rank);
  ~Plugins();
  Plugins(const Plugins&) = delete;
  Plugins& operator=(const Plugins&) = delete;

  /// Restricts every choice to `most` channels.
  void limit_channels(int most) { most_channels_ = most; }
  /// Gives the communicator at least and at most so many channels, where they are not 0. Each
  /// collective then uses at least the first number, unless a tuner requests fewer.
  void request_channels(int least, int most) {
    if (most > 0) most_channels_ = std::min(most_channels_, most);
    least_channels_ = least;
    most_channels_ = std::max(most_channels_, least);
  }

  /// To be called when a batch is launched, by the thread that launches it.
  void report(const std::vector<Operation>& batch);

 private:
  int begin_tuner();
  void end();
  struct Choice;
  Choice choose(const Operation& operation) const;
  bool is_copied(const Operation& operation) const;
  bool is_reporting() const;
  // `group_call`: the event of the group of calls, nullptr before version 5 of the interface.
  // `is_first`: whether the group's kernel has no other operation before.
  void report_one(const Operation& operation, void* group_call, bool is_first);
  void report_copies(const Operation& operation, void* group_call);
  void report_collective(const Operation& operation, void* group_call, bool is_first);
  void report_messages(const Operation& operation, void* group_call);

  const uint64_t communicator_;
  const int ranks_;
  const int rank_;
  int most_channels_ = 24;
  int least_channels_ = 1;
  uint64_t sequence_ = 0;
  void* profiler_context_ = nullptr;
  uint64_t messages_begin_ns_ = 0;  // of the kernel of a group
  void* tuner_context_ = nullptr;
};

}  // namespace fake_nccl
