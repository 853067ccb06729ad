#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ccl/communicator.hpp"
#include "core/counter.hpp"
#include "core/rank_group.hpp"
#include "device/device.hpp"
#include "measure/captured_graph.hpp"
#include "measure/concurrency.hpp"
#include "measure/event_reference.hpp"
#include "measure/message_buffers.hpp"
#include "measure/piecewise_call.hpp"
#include "measure/verification.hpp"

namespace cclmark {

/// How the operations of a batch follow each other.
enum class Timing : uint8_t {
  throughput,  ///< enqueued back to back, one pair of events round all of them
  blocking,    ///< each alone, after a barrier, waited for before the next
  graph,       ///< captured once, replayed
  per_op,      ///< back to back, a pair of events round each
};

/// The operations to time as one batch.
struct Batch {
  Timing timing = Timing::throughput;
  size_t iterations = 1;         ///< samples with blocking and per_op, else operations per sample
  size_t group = 1;              ///< operations that the library launches as one
  size_t graph_launches = 1;     ///< graph only
  size_t lead_launches = 0;      ///< graph only: launches before the first event
  size_t graph = 0;              ///< graph only: which of several graphs with the same operations
  double delay_s = 0;            ///< this rank waits so long before its first operation
  bool warm = false;             ///< every operation takes the same place of the buffers
  bool library_barrier = false;  ///< ranks meet in the library's barrier, else in the rank group's
  bool events = false;           ///< blocking only: events too, which the host then waits for
};

/// Times of one batch on every rank, in seconds per operation. Each vector holds `count` values of
/// rank 0, then of rank 1 and so on.
struct Samples {
  size_t count = 1;
  std::vector<double> host_s;     ///< from the barrier until the operations were complete
  std::vector<double> device_s;   ///< between the device's events; NaN where there are none
  std::vector<double> enqueue_s;  ///< from the barrier until the last call had returned
};

/// The times of single operations on this rank, in nanoseconds of the steady clock.
///
/// `device_begin_s`, `device_end_s`: seconds on the device's clock since the event that was
/// recorded at `reference`; empty without events.
struct TracedOperations {
  std::vector<int64_t> call_begin_ns, call_end_ns;
  std::vector<double> device_begin_s, device_end_s;
  EventReference reference;
  int64_t complete_ns = 0;  ///< when all were complete
};

/// The times of all ranks, by rank. `compute_s` and `communication_s` as in StreamTimes.
struct ConcurrentTimes {
  std::vector<std::vector<double>> communication_s, compute_s;
  std::vector<double> enqueue_s, host_s;
};

/// One rank's part in measuring: the operation being measured and the timed loop.
///
/// All calls are collective: every rank makes the same ones with the same arguments. Waits end at
/// the time granted with RankGroup::expect_within.
class Session {
 public:
  /// `counter`: records the progress of this rank, optional; restarted here.
  Session(Device& device, RankGroup& rank_group, Communicator& communicator,
          OperationCounter* counter = nullptr);
  ~Session() { settle(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Allocates buffers for inputs and outputs of so many bytes on this rank, unless they are large
  /// enough already. See MessageBuffers. Raises OutOfMemoryError, UnsupportedError.
  void reserve(size_t send_bytes, size_t receive_bytes, const BufferKind& kind);

  /// Binds the operation for the next calls and fills its inputs. Raises UnsupportedError if the
  /// library does not support it, Error if it does not fit. `pieces`: the calls that together are
  /// the operation, by default one. See bind_pieces.
  void prepare(const Operation& operation, bool in_place, uint32_t seed, const Pieces& pieces = {});

  /// Times one batch. Raises UnsupportedError if the library refuses the first operation after
  /// `prepare` and its communicator reports no failure: nothing is enqueued on this rank then. A
  /// refusal of a later operation is an Error.
  Samples run(const Batch& batch);

  /// Runs `operations` back to back and returns the times of each. `events`: also on the device's
  /// clock, which delays what follows an event.
  TracedOperations trace(size_t operations, bool events);

  /// Runs the operation and a compute at the same time, or one of them alone if the other has no
  /// spans. Raises UnsupportedError as `run` does, and if the two cannot be timed beside each
  /// other.
  ConcurrentTimes run_beside(const Spans& operations, const Spans& products, Compute& compute);

  /// Captures the operations of a batch that is to be replayed, unless its graph has them already.
  /// Local to this rank: nothing is executed. Raises UnsupportedError when that cannot be done.
  void capture(const Batch& batch);

  /// Runs the operation once and checks its output. See Verification.
  VerificationResult verify(std::optional<size_t> corrupt);
  /// The same while operations of a compute run, whose output is overwritten before.
  VerificationResult verify_beside(const Spans& products, Compute& compute,
                                   std::optional<size_t> corrupt);
  /// Checks the output of the last operation of a compute on this rank.
  ComputeFinding check_compute(Compute& compute);

  int ranks() const { return rank_group_.size(); }
  /// The library's route for the prepared operation: "native", or its composition.
  std::string route() const;
  /// How the prepared operation moves its data if the library is one of the engine, else empty.
  std::string kernel() const;
  /// The steps of the prepared operation on this rank if the library is one of the engine, else
  /// empty. Copies of data onto themselves are left out, as in place.
  std::vector<PlannedStep> steps() const;
  /// Why operations of this library on this device cannot be replayed from graphs; empty when they
  /// can.
  std::string no_graphs() const;
  /// Whether graphs of one operation can be placed apart, for which the device needs kernels.
  bool spaces_graphs();
  /// Why checks run on the host; empty when they run on the device.
  const std::string& checked_on_host() const { return verification_.on_host(); }
  /// What was done there since the last call.
  std::vector<HostPeriod> take_host_periods() { return verification_.take_host_periods(); }

  /// The memory of this rank that the engine has allocated or mapped: buffers, the memory of the
  /// check and of the rank group, and the communicator's own. Not included: streams, events,
  /// graphs and kernels, whose size runtimes do not report.
  std::vector<MemoryBlock> memory_blocks() const;

 private:
  void ready(size_t operations);
  void issue(size_t slot);
  [[noreturn]] void throw_refusal(const std::string& reason);
  void issue_next();
  void issue_all(const Batch& batch);
  void wait_until_idle();
  void settle() noexcept;
  void meet(const Batch& batch);
  Samples gather(const std::vector<double>& host_s, const std::vector<double>& device_s,
                 const std::vector<double>& enqueue_s);
  Samples run_batch(const Batch& batch);
  Samples run_singly(const Batch& batch);
  Samples run_with_events(const Batch& batch);
  void provide_marks(size_t count);
  void mark(size_t number);
  double elapsed_s(size_t from, size_t to);
  Concurrency& concurrency();
  void begin(const Batch& batch);
  CapturedGraph& upload_graph(const Batch& batch);
  void place_apart();

  Device& device_;
  RankGroup& rank_group_;
  Communicator& communicator_;
  OperationCounter uncounted_;
  OperationCounter& counter_;
  /// Whether the work of a call is done when it returns, and so whenever the next one is entered.
  bool done_on_return_ = false;
  Stream stream_;
  std::vector<Event> marks_;  ///< the first two begin and end what is timed as a whole
  Verification verification_;

  Operation operation_;
  std::unique_ptr<Call> call_;
  std::unique_ptr<Call> barrier_;  ///< the library's, once a batch required it
  size_t readied_ = 0;             ///< slots that the call was prepared for
  bool is_accepted_ = false;       ///< whether a call of the prepared operation returned

  // Members are destroyed from the last to the first: the graphs, the buffers, then the calls.
  MessageBuffers buffers_;
  /// Graphs, and the unused ones that were captured before each of them but the first.
  std::vector<std::unique_ptr<CapturedGraph>> graphs_, spaces_;
  std::unique_ptr<Concurrency> concurrency_;  ///< once a compute was measured
};

}  // namespace cclmark
