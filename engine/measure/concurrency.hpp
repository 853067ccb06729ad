#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "ccl/communicator.hpp"
#include "compute/compute.hpp"
#include "core/rank_group.hpp"
#include "device/device.hpp"

namespace cclmark {

/// Operations that follow each other on a stream: `count` spans of `operations` each, with an event
/// after every span.
struct Spans {
  size_t count = 0;
  size_t operations = 1;
};

/// The times of the events on the two streams of one rank, in seconds on the device's clock after
/// the rank's reference event. A stream with `count` spans has `count` + 1 events; a stream without
/// work has none.
struct StreamTimes {
  std::vector<double> communication_s;
  std::vector<double> compute_s;
  double enqueue_s = 0;  ///< from the barrier until the last call had returned
  double host_s = 0;     ///< from the barrier until both streams were idle
};

/// Runs operations of a collective and of a compute on two streams of a device at the same time.
///
/// Work of both is enqueued in turns, so that neither stream runs out of work while the other one
/// still has some. A device that works inside the call, as the host does, runs the compute in a
/// second thread, which may use the processors of the first one.
///
/// If the library has a separate stream, the library records the marks on that stream. The origin
/// of their times lies between two events on the idle device, and is known to half of their
/// distance.
class Concurrency {
 public:
  /// `stream`: of the collective.
  Concurrency(Device& device, RankGroup& rank_group, Communicator& communicator, void* stream);

  /// Runs both until they are complete. `issue` enqueues an operation of the collective. `compute`
  /// is required if there are spans of it. Ranks begin together. Raises UnsupportedError if the
  /// library's calls return only when the device has done their work.
  StreamTimes run(const Spans& communication, const std::function<void()>& issue,
                  const Spans& products, Compute* compute);

  /// Whether the output of `compute` is right, that of its last operation.
  ComputeFinding check(Compute& compute);
  /// Overwrites the output of `compute`.
  void poison(Compute& compute);

 private:
  void require_events() const;
  void wait_until_idle(void* stream);
  void run_span(const Spans& products, const std::function<void()>& multiply, size_t end);
  void send_span(const Spans& communication, const std::function<void()>& issue, size_t end);
  void mark_communication(size_t number);
  void enqueue_in_turns(const Spans& communication, const std::function<void()>& issue,
                        const Spans& products, const std::function<void()>& multiply);
  void record_reference();
  double communication_s(size_t number);

  Device& device_;
  RankGroup& rank_group_;
  Communicator& communicator_;
  void* stream_;
  Stream compute_stream_;
  Event reference_, after_reference_;
  std::vector<Event> communication_events_, compute_events_;
};

}  // namespace cclmark
