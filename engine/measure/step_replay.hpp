#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ccl/communicator.hpp"
#include "compute/compute.hpp"
#include "core/counter.hpp"
#include "core/rank_group.hpp"
#include "device/device.hpp"
#include "measure/checker.hpp"

namespace cclmark {

/// When a call of a step begins, besides that the calls before it on its stream are complete.
enum class Gap : uint8_t {
  none,            ///< at once
  after_previous,  ///< so long after the call before it on its stream
  after_begin,     ///< so long after the begin of the step
};

/// A call of one rank in a step.
struct StepCall {
  size_t communicator = 0;  ///< its place in the list of communicators
  size_t stream = 0;
  /// For an alltoallv, the matrix contains at least what this rank sends and receives, and all that
  /// the ranks send from which it receives.
  Operation operation;
  Gap gap = Gap::none;
  double gap_s = 0;
  /// For Gap::after_previous: the place of an earlier call of the step, on any stream, after which
  /// the gap begins; without one it is the call before on the same stream.
  std::optional<size_t> after;
};

/// Memory traffic beside a call on its device, as of the program's compute: from the begin of the
/// call, for `time_s`, by as many blocks as multiprocessors are busy.
struct Traffic {
  unsigned blocks = 0;
  double time_s = 0;
};

/// The times of one step on this rank, in seconds.
struct StepTimes {
  /// Of every call on the device's clock, after the begin of the step. The begin is that of its
  /// kernel where the time of a launch is known.
  std::vector<double> begin_s, end_s;
  /// From the barrier until the last call had returned, without the delay of the rank and the time
  /// to enqueue the compute.
  double enqueue_s = 0;
  double host_s = 0;  ///< from the barrier until the calls and the compute were complete
};

/// A communicator with the place of this rank in it. `number`: differs between the communicators of
/// a step, so that their data do.
struct Membership {
  Communicator* communicator;
  int rank;
  int ranks;
  uint32_t number = 0;
};

/// Repeats a sequence of calls: operations of several communicators on several streams, with gaps
/// between them in which nothing runs, or a compute that stands for the program's own.
///
/// Calls are enqueued in their order. Those of one communicator on one stream share a buffer for
/// inputs and one for outputs, because they do not overlap. Gaps pass on the device, less the time
/// of the launches in them; a device that works inside the call waits on the host. A step begins on
/// the devices when the hosts have enqueued what they enqueue in a step, and together, if a
/// communicator has all ranks: the queue of a device is as far ahead as in a program. The compute
/// is repeated on a separate stream from the begin of a step to the end of its last call; a device
/// that works inside the call executes it in the gaps.
class StepReplay {
 public:
  /// `rank_group`: of all ranks, which begin each step together. Raises Error for a call with an
  /// unknown communicator, UnsupportedError if a library or the device does not support a call or a
  /// gap, OutOfMemoryError.
  StepReplay(Device& device, RankGroup& rank_group, std::vector<Membership> memberships,
             std::vector<StepCall> calls, uint32_t seed, OperationCounter* counter = nullptr,
             Compute* compute = nullptr);
  ~StepReplay();
  StepReplay(const StepReplay&) = delete;
  StepReplay& operator=(const StepReplay&) = delete;

  /// Runs the step once. `delay_s`: this rank begins so much later. All ranks must call it.
  StepTimes run(double delay_s);

  /// What runs beside each call in the steps to come. It takes memory unless nothing runs. Raises
  /// Error if there are not as many as calls, UnsupportedError without kernels, OutOfMemoryError.
  void set_traffic(std::vector<Traffic> traffic);
  /// By how much each call begins later than its gap says in the steps to come, or earlier, as far
  /// as its gap is long enough. Raises Error if there are not as many as calls.
  void set_later(std::vector<double> later_s);
  /// The most blocks of a traffic, so many that the kernels of the calls keep multiprocessors; 0 if
  /// the device cannot have any.
  unsigned most_traffic_blocks() const;

  /// Runs the step once, each call with fresh inputs and a poisoned output, and checks the output
  /// of every call in full, on the call's stream. `corrupt`: this element is overwritten before the
  /// check, in the output of the first call that has so many. Returns what is wrong on this rank,
  /// by call.
  std::vector<Checker::Count> verify(std::optional<size_t> corrupt);

  /// The bytes of all buffers of messages.
  size_t buffer_bytes() const;
  /// Why outputs are checked on the host; empty if they are checked on the device.
  std::string checked_on_host() const;

 private:
  struct Lane;
  struct Bound;

  void check_calls(const std::vector<StepCall>& calls) const;
  void check_gap(const StepCall& call, size_t place) const;
  void allocate(const std::vector<StepCall>& calls);
  void bind(StepCall call);
  void bind_meeting();
  void measure_launches();
  double meet_on_host();
  void pause(double time_s, void* stream);
  void begin_together(double lead_s);
  void begin_step(bool computes);
  void keep_order(const Bound& bound);
  void pass_gap(size_t place);
  void wait_on_host(const StepCall& call);
  void launch_traffic(size_t place);
  void move_memory(const Traffic& traffic, size_t place, void* stream);
  void enqueue(const Bound& bound);
  void wait_until_idle();
  void wait_for_stream(void* stream);
  void measure_compute();
  void compute_ahead();
  void keep_computing();
  void compute_until_idle();
  void* stream_of(const StepCall& call) const { return streams_[call.stream].get(); }

  Device& device_;
  RankGroup& rank_group_;
  std::vector<Membership> memberships_;
  uint32_t seed_;
  OperationCounter uncounted_;
  OperationCounter& counter_;
  const Kernel* pause_ = nullptr;  ///< nullptr on a device that works inside the call
  Buffer origin_;
  /// The time from one event to the next around a kernel, beyond its own: one of many blocks, one
  /// of one thread, and this if its stream waits for the first event. Below 0: not measured yet.
  double launch_s_ = -1, pause_launch_s_ = -1, crossing_s_ = -1;
  double enqueue_s_;      ///< of the last step
  int64_t begun_ns_ = 0;  ///< of the step, on a device that works inside the call
  std::vector<Stream> streams_;
  Event reference_;
  Compute* compute_;
  std::optional<Stream> compute_stream_;
  double compute_s_ = 0;  ///< of one operation of the compute alone; 0: not measured yet
  double ahead_s_ = 0;    ///< of the host in a step, to enqueue the compute
  std::vector<Event> begins_, ends_;
  std::map<std::pair<size_t, size_t>, std::unique_ptr<Lane>> lanes_;  ///< communicator, stream
  std::unique_ptr<Lane> meeting_;  ///< a call of all ranks, after which their devices are together
  std::vector<Bound> calls_;
  std::vector<double> later_s_;   ///< by call; empty without any
  std::vector<Traffic> traffic_;  ///< by call; empty without any
  Buffer traffic_memory_;
  Buffer deadlines_;                     ///< of the traffic, by call
  std::vector<Stream> traffic_streams_;  ///< beside each stream
  Buffer counts_;                        ///< of the checks, by call
};

}  // namespace cclmark
