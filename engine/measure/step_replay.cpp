#include "measure/step_replay.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <span>
#include <thread>

#include "collective/table.hpp"
#include "core/clock.hpp"
#include "core/waiting.hpp"
#include "measure/message_buffers.hpp"

namespace cclmark {
namespace {

constexpr int kPoison = 0xa5;
constexpr int kCorruption = 0x5a;
constexpr double kNsPerSecond = 1e9;
constexpr double kMostGapS = 3600;
constexpr size_t kMostStreams = 256;
constexpr double kLeastSleepS = 200e-6;  // a shorter sleep ends later than it should
// The time of one operation of a compute is the median of these batches, unless a first one is
// long.
constexpr size_t kBatches = 5;
constexpr size_t kBatchOperations = 16;
constexpr double kLongComputeS = 0.05;
constexpr double kLeastComputeS = 1e-7;  // of a clock that is too coarse for these batches
// Of the compute that is enqueued at once. The number limits how long a call waits for launches.
constexpr double kAheadS = 1e-3;
constexpr size_t kMostAhead = 16;

// The time of a launch is the median of so many. What a busy processor adds is left out.
constexpr size_t kLaunches = 15;
constexpr double kLaunchPauseS = 20e-6, kLaunchLeadS = 400e-6;
constexpr double kMostLaunchS = 20e-6;
// As the kernels of libraries, whose blocks start and end one after the other.
constexpr Grid kCallGrid{.blocks = 24, .threads = 512, .shared_bytes = 40 << 10};
// How far the hosts are ahead of the devices at the begin of a step: by their time to enqueue a
// step, unless that is long. The queue of a device is full before.
constexpr double kFirstLeadS = 2e-3, kMostLeadS = 20e-3;
constexpr double kLeadRatio = 1.2, kLeadMarginS = 50e-6;
// Of traffic: the kernels of calls keep a quarter of the multiprocessors.
constexpr unsigned kTrafficThreads = 1024;
constexpr size_t kMostTrafficBytes = 256 << 20;
constexpr size_t kVectorBytes = 16, kDeadlineBytes = sizeof(unsigned long long);

enum class PauseMode : unsigned { wait = 0, mark = 1, wait_from_first = 2 };

/// As in kernels/clock.cu.
struct PauseArguments {
  volatile unsigned long long* origin;
  unsigned long long wait_ns;
  PauseMode mode;
};

/// As in kernels/clock.cu.
struct TrafficArguments {
  void* memory;
  unsigned long long vectors;
  unsigned long long wait_ns;
  std::byte* deadline;
};

double median_of(std::vector<double> values) {
  auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

/// The calls of one communicator on one stream: their buffers, and what checks their outputs.
struct StepReplay::Lane {
  Lane(Device& used, Communicator& owner, Room size)
      : device(used), communicator(owner), room(size) {
    send = allocate(room.send_bytes);
    try {
      receive = allocate(room.receive_bytes);
    } catch (...) {
      release(send);
      throw;
    }
  }
  ~Lane() {
    release(send);
    release(receive);
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Plain memory, as programs have.
  std::byte* allocate(size_t bytes) const {
    return static_cast<std::byte*>(communicator.allocate(device, bytes, MemoryKind::plain));
  }
  void release(std::byte* memory) const noexcept {
    communicator.release(device, memory, MemoryKind::plain);
  }

  Device& device;
  Communicator& communicator;
  Room room;
  std::byte* send = nullptr;
  std::byte* receive = nullptr;
  /// By the content of inputs, see MessageBuffers::fill: it changes with the type only.
  std::map<std::string, std::unique_ptr<Checker>> checkers;
  std::vector<std::pair<Operation, std::unique_ptr<Call>>> bound;
};

struct StepReplay::Bound {
  StepCall call;
  /// The call before of its communicator, if that is on another stream.
  std::optional<size_t> before;
  Lane* lane;
  Call* enqueued;
  Checker* checker;
  size_t input_bytes, output_bytes;
  std::vector<Segment> segments;
};

StepReplay::StepReplay(Device& device, RankGroup& rank_group, std::vector<Membership> memberships,
                       std::vector<StepCall> calls, uint32_t seed, OperationCounter* counter,
                       Compute* compute)
    : device_(device),
      rank_group_(rank_group),
      memberships_(std::move(memberships)),
      seed_(seed),
      counter_(counter != nullptr ? *counter : uncounted_),
      enqueue_s_(kFirstLeadS),
      reference_(device),
      compute_(compute) {
  check_calls(calls);
  counter_.restart();
  size_t streams = 1;
  for (const StepCall& call : calls) streams = std::max(streams, call.stream + 1);
  for (size_t i = 0; i < streams; ++i) streams_.emplace_back(device_);
  bool pauses = std::ranges::any_of(calls, [](const StepCall& c) { return c.gap != Gap::none; });
  if (compute_ != nullptr) compute_stream_.emplace(device_);
  if (!device_.synchronous()) {
    try {
      pause_ = &device_.kernel("cclmark_pause");
      origin_ = Buffer(device_, sizeof(unsigned long long));
    } catch (const MissingError& error) {
      if (pauses) {
        throw UnsupportedError(std::string("gaps between calls require a kernel: ") + error.what());
      }
    }
  }
  allocate(calls);
  bind_meeting();
  calls_.reserve(calls.size());
  for (StepCall& call : calls) bind(std::move(call));
  counts_ = Buffer(device_, std::max<size_t>(1, calls_.size()) * Checker::kSavedBytes);
  for (size_t i = 0; i < calls_.size(); ++i) {
    begins_.emplace_back(device_);
    ends_.emplace_back(device_);
  }
}

StepReplay::~StepReplay() = default;

void StepReplay::check_calls(const std::vector<StepCall>& calls) const {
  for (size_t i = 0; i < calls.size(); ++i) {
    const StepCall& call = calls[i];
    check_gap(call, i);
    if (call.communicator >= memberships_.size()) {
      throw Error("a call of the step has an unknown communicator");
    }
    auto ranks = static_cast<size_t>(memberships_[call.communicator].ranks);
    if (info(call.operation.collective).uneven && call.operation.matrix.size() != ranks * ranks) {
      throw Error("a call of the step has a matrix of another size");
    }
  }
  if (device_.synchronous()) return;
  for (const Membership& one : memberships_) {
    if (!one.communicator->blocking()) continue;
    throw UnsupportedError(
        "calls of this library return only when their work is complete, so that calls on several "
        "streams cannot be replayed");
  }
}

void StepReplay::check_gap(const StepCall& call, size_t place) const {
  if (!(call.gap_s >= 0 && call.gap_s <= kMostGapS)) throw Error("a gap of the step is too long");
  if (call.after && *call.after >= place)
    throw Error("a gap of the step begins after a later call");
  if (call.stream >= kMostStreams) throw Error("the step has too many streams");
}

/// Provides buffers that are large enough for every call of a lane.
void StepReplay::allocate(const std::vector<StepCall>& calls) {
  std::map<std::pair<size_t, size_t>, Room> rooms;
  for (const StepCall& call : calls) {
    Room need = room_for(call.operation, false, memberships_[call.communicator].ranks);
    Room& room = rooms[{call.communicator, call.stream}];
    room.send_bytes = std::max({room.send_bytes, need.send_bytes, size_t{512}});
    room.receive_bytes = std::max({room.receive_bytes, need.receive_bytes, size_t{512}});
  }
  for (const auto& [key, room] : rooms) {
    lanes_[key] = std::make_unique<Lane>(device_, *memberships_[key.first].communicator, room);
  }
}

void StepReplay::bind(StepCall call) {
  const Membership& own = memberships_[call.communicator];
  const Operation& operation = call.operation;
  const CollectiveInfo& row = info(operation.collective);
  Lane& lane = *lanes_.at({call.communicator, call.stream});
  std::string content(name(operation.dtype));
  content += row.reduces ? "/" + std::string(name(operation.reduction)) : "/copy";
  std::unique_ptr<Checker>& checker = lane.checkers[content];
  if (checker == nullptr) {
    checker = std::make_unique<Checker>(device_, stream_of(call), own.rank, own.ranks);
    checker->choose(operation, seed_ + own.number);
    checker->fill_input(lane.send, lane.room.send_bytes);
  }
  using Known = std::pair<Operation, std::unique_ptr<Call>>;
  auto known = std::ranges::find(lane.bound, operation, &Known::first);
  if (known == lane.bound.end()) {
    lane.bound.emplace_back(operation, own.communicator->bind(operation, stream_of(call)));
    known = std::prev(lane.bound.end());
    known->second->prepare(lane.send, lane.receive);
  }
  size_t width = size_bytes(operation.dtype);
  std::optional<size_t> before;
  for (size_t i = calls_.size(); i-- > 0 && !before;) {
    if (calls_[i].call.communicator == call.communicator) before = i;
  }
  if (before && calls_[*before].call.stream == call.stream) before.reset();
  calls_.push_back({.call = call,
                    .before = before,
                    .lane = &lane,
                    .enqueued = known->second.get(),
                    .checker = checker.get(),
                    .input_bytes = row.send_count(operation, own.rank, own.ranks) * width,
                    .output_bytes = row.receive_count(operation, own.rank, own.ranks) * width,
                    .segments = row.expected(operation, own.rank, own.ranks)});
}

/// Binds a small call of all ranks. Without a communicator of all, ranks meet on the hosts only.
void StepReplay::bind_meeting() {
  if (pause_ == nullptr || memberships_.empty() || rank_group_.size() == 1) return;
  const Membership& largest = memberships_.front();
  if (largest.ranks != rank_group_.size()) return;
  Operation operation;
  operation.collective = Collective::all_reduce;
  operation.count = 1;
  auto lane = std::make_unique<Lane>(device_, *largest.communicator,
                                     room_for(operation, false, largest.ranks));
  try {
    auto call = largest.communicator->bind(operation, streams_.front().get());
    call->prepare(lane->send, lane->receive);
    lane->bound.emplace_back(operation, std::move(call));
    meeting_ = std::move(lane);
  } catch (const UnsupportedError&) {
  }
}

/// Measures what the launch of a pause, and of a kernel as large as that of a call, adds to the
/// time between events, behind a pause in which the host enqueues all of it.
void StepReplay::measure_launches() {
  void* stream = streams_.front().get();
  Stream other(device_);
  Event begin(device_), paused(device_), end(device_), crossed(device_);
  auto* first_end = reinterpret_cast<volatile unsigned long long*>(origin_.data());
  PauseArguments call{first_end, static_cast<unsigned long long>(kLaunchPauseS * kNsPerSecond),
                      PauseMode::wait_from_first};
  Grid grid = kCallGrid;
  if (device_.info().shared_bytes_per_block < grid.shared_bytes) grid.shared_bytes = 0;
  std::vector<double> launches_s, pauses_s, crossings_s;
  for (size_t i = 0; i < kLaunches; ++i) {
    pause(kLaunchLeadS, stream);
    device_.fill_bytes(origin_.data(), 0xff, origin_.size_bytes(), stream);
    device_.record(begin.get(), stream);
    pause(kLaunchPauseS, stream);
    device_.record(paused.get(), stream);
    device_.launch_grid(*pause_, &call, grid, stream);
    device_.record(end.get(), stream);
    device_.wait_for_event(end.get(), other.get());
    pause(kLaunchPauseS, other.get());
    device_.record(crossed.get(), other.get());
    wait_for_stream(other.get());
    pauses_s.push_back(device_.elapsed_s(begin.get(), paused.get()) - kLaunchPauseS);
    launches_s.push_back(device_.elapsed_s(paused.get(), end.get()) - kLaunchPauseS);
    crossings_s.push_back(device_.elapsed_s(end.get(), crossed.get()) - kLaunchPauseS);
  }
  launch_s_ = std::clamp(median_of(launches_s), 0.0, kMostLaunchS);
  pause_launch_s_ = std::clamp(median_of(pauses_s), 0.0, kMostLaunchS);
  crossing_s_ = std::clamp(median_of(crossings_s), pause_launch_s_, kMostLaunchS);
}

/// Meets the other ranks. Returns by how much the hosts are to be ahead of the devices.
double StepReplay::meet_on_host() {
  if (pause_ == nullptr) {
    rank_group_.barrier();
    return 0;
  }
  auto told = rank_group_.gather(std::span(&enqueue_s_, 1));
  return std::min(kLeadRatio * std::ranges::max(told) + kLeadMarginS, kMostLeadS);
}

/// Lets time pass on a stream.
void StepReplay::pause(double time_s, void* stream) {
  PauseArguments wait{nullptr, static_cast<unsigned long long>(time_s * kNsPerSecond),
                      PauseMode::wait};
  device_.launch_grid(*pause_, &wait, {}, stream);
}

/// Lets the devices wait until the hosts are ahead, and then for each other.
void StepReplay::begin_together(double lead_s) {
  if (pause_ == nullptr) return;
  pause(lead_s, streams_.front().get());
  if (meeting_ == nullptr) return;
  try {
    meeting_->bound.front().second->enqueue(meeting_->send, meeting_->receive);
  } catch (const RefusedError& error) {
    meeting_->communicator.check();
    throw UnsupportedError(error.what());
  }
}

/// Begins a step on all streams, after the ranks have met. `computes`: with the compute.
void StepReplay::begin_step(bool computes) {
  void* first = streams_.front().get();
  begun_ns_ = now_ns();
  if (!traffic_.empty())
    device_.fill_bytes(deadlines_.data(), 0xff, deadlines_.size_bytes(), first);
  if (pause_ != nullptr) {
    PauseArguments mark{reinterpret_cast<volatile unsigned long long*>(origin_.data()), 0,
                        PauseMode::mark};
    device_.launch_grid(*pause_, &mark, {}, first);
  }
  device_.record(reference_.get(), first);
  if (device_.synchronous()) return;
  for (size_t i = 1; i < streams_.size(); ++i) {
    device_.wait_for_event(reference_.get(), streams_[i].get());
  }
  if (!computes || compute_ == nullptr) return;
  device_.wait_for_event(reference_.get(), compute_stream_->get());
  compute_ahead();
}

/// Measures one operation of the compute alone.
void StepReplay::measure_compute() {
  void* stream = compute_stream_->get();
  Event begin(device_), end(device_);
  auto time_of = [&](size_t operations) {
    device_.record(begin.get(), stream);
    for (size_t i = 0; i < operations; ++i) compute_->enqueue(stream);
    device_.record(end.get(), stream);
    wait_for_stream(stream);
    return device_.elapsed_s(begin.get(), end.get());
  };
  double first_s = time_of(1);  // in which the library may load kernels
  if (first_s < kLongComputeS) {
    std::vector<double> times_s;
    for (size_t batch = 0; batch < kBatches; ++batch) times_s.push_back(time_of(kBatchOperations));
    first_s = median_of(times_s) / kBatchOperations;
  }
  compute_s_ = std::max(first_s, kLeastComputeS);
}

/// Enqueues the compute for a short time.
void StepReplay::compute_ahead() {
  auto begin = Clock::now();
  auto operations = std::clamp<size_t>(static_cast<size_t>(kAheadS / compute_s_), 1, kMostAhead);
  for (size_t i = 0; i < operations; ++i) compute_->enqueue(compute_stream_->get());
  ahead_s_ += seconds_between(begin, Clock::now());
}

/// Enqueues more of the compute if it is complete.
void StepReplay::keep_computing() {
  if (compute_ == nullptr || device_.synchronous()) return;
  if (device_.idle(compute_stream_->get())) compute_ahead();
}

/// Repeats the compute until all calls of the step are complete.
void StepReplay::compute_until_idle() {
  if (compute_ == nullptr || device_.synchronous()) return;
  for (const Stream& stream : streams_) {
    while (!device_.idle(stream.get())) {
      for (const Membership& one : memberships_) one.communicator->check();
      rank_group_.check(RankGroup::kDevice);
      keep_computing();
    }
  }
}

/// Lets a call wait for the one before of its communicator on another stream, as NCCL does itself:
/// ranks could execute them in different orders.
void StepReplay::keep_order(const Bound& bound) {
  if (!bound.before || device_.synchronous()) return;
  device_.wait_for_event(ends_[*bound.before].get(), stream_of(bound.call));
}

/// Lets the time before a call pass on its stream, less the time that the launches take: of the
/// pause, and of the call.
void StepReplay::pass_gap(size_t place) {
  const StepCall& call = calls_[place].call;
  const double later_s = later_s_.empty() ? 0 : later_s_[place];
  if (call.gap == Gap::none && later_s <= 0) return;
  if (pause_ == nullptr) return wait_on_host(call);
  double gap_s = call.gap_s + later_s, cost_s = launch_s_;
  unsigned long long* origin = nullptr;
  if (call.gap == Gap::none) {
    cost_s = 0;
  } else if (call.gap == Gap::after_begin) {
    origin = reinterpret_cast<unsigned long long*>(origin_.data());
  } else if (call.after && calls_[*call.after].call.stream != call.stream) {
    device_.wait_for_event(ends_[*call.after].get(), stream_of(call));
    cost_s += crossing_s_;
  } else {
    cost_s += pause_launch_s_;
  }
  if (gap_s <= cost_s) return;
  PauseArguments wait{origin, static_cast<unsigned long long>((gap_s - cost_s) * kNsPerSecond),
                      PauseMode::wait};
  device_.launch_grid(*pause_, &wait, {}, stream_of(call));
}

void StepReplay::wait_on_host(const StepCall& call) {
  const int64_t from_ns = call.gap == Gap::after_begin ? begun_ns_ : now_ns();
  const int64_t until_ns = from_ns + static_cast<int64_t>(call.gap_s * kNsPerSecond);
  for (;;) {
    double left_s = static_cast<double>(until_ns - now_ns()) / kNsPerSecond;
    if (left_s <= 0) return;
    rank_group_.check(RankGroup::kDevice);
    if (compute_ != nullptr && left_s > compute_s_) {
      compute_->enqueue(compute_stream_->get());
    } else if (left_s > 2 * kLeastSleepS) {
      // Compute of the program would use the processor; the ranks of a replay may share it.
      std::this_thread::sleep_for(
          std::chrono::duration<double>(std::min(left_s - kLeastSleepS, 0.1)));
    } else {
      relax_cpu();
    }
  }
}

void StepReplay::set_traffic(std::vector<Traffic> traffic) {
  if (traffic.size() != calls_.size())
    throw Error("the traffic beside a call of a step is missing");
  const bool runs = std::ranges::any_of(traffic, [](const Traffic& one) { return one.blocks > 0; });
  if (!runs) {
    traffic_.clear();
    traffic_memory_ = Buffer();
    return;
  }
  if (most_traffic_blocks() == 0) {
    throw UnsupportedError("memory traffic beside calls requires kernels");
  }
  for (Traffic& one : traffic) {
    if (!(one.time_s >= 0 && one.time_s <= kMostGapS)) {
      throw Error("the traffic beside a call of a step takes too long");
    }
    one.blocks = std::min(one.blocks, most_traffic_blocks());
  }
  if (traffic_memory_.data() == nullptr) {
    // More than the cache, so that it is the memory that is busy, and room for all threads.
    size_t least_bytes =
        size_t{8} * kVectorBytes * kTrafficThreads * (1 + size_t{most_traffic_blocks()});
    traffic_memory_ =
        Buffer(device_,
               std::max(least_bytes, std::min(4 * device_.info().cache_bytes, kMostTrafficBytes)));
  }
  while (traffic_streams_.size() < streams_.size()) traffic_streams_.emplace_back(device_);
  if (deadlines_.data() == nullptr) deadlines_ = Buffer(device_, calls_.size() * kDeadlineBytes);
  // Compiled and loaded before a step.
  move_memory({1, 0}, 0, traffic_streams_.front().get());
  wait_for_stream(traffic_streams_.front().get());
  traffic_ = std::move(traffic);
}

void StepReplay::set_later(std::vector<double> later_s) {
  if (later_s.size() != calls_.size()) throw Error("the time of a call of a step is missing");
  for (double one_s : later_s) {
    if (!(std::abs(one_s) <= kMostGapS)) throw Error("a call of the step is too late");
  }
  later_s_ = std::move(later_s);
}

unsigned StepReplay::most_traffic_blocks() const {
  if (pause_ == nullptr) return 0;
  return static_cast<unsigned>(std::max(1, device_.info().multiprocessors * 3 / 4));
}

/// Launches the traffic beside a call, which begins with it.
void StepReplay::launch_traffic(size_t place) {
  if (traffic_.empty() || traffic_[place].blocks == 0) return;
  void* stream = traffic_streams_[calls_[place].call.stream].get();
  device_.wait_for_event(begins_[place].get(), stream);
  move_memory(traffic_[place], place, stream);
}

/// Launches the kernel of the traffic beside the call in a place.
void StepReplay::move_memory(const Traffic& traffic, size_t place, void* stream) {
  TrafficArguments arguments{traffic_memory_.data(),
                             traffic_memory_.size_bytes() / 2 / kVectorBytes,
                             static_cast<unsigned long long>(traffic.time_s * kNsPerSecond),
                             deadlines_.data() + place * kDeadlineBytes};
  const Kernel& kernel = device_.kernel("cclmark_traffic");
  device_.launch_grid(kernel, &arguments, {traffic.blocks, kTrafficThreads}, stream);
}

/// Enqueues a call. Raises UnsupportedError if the library refuses it.
void StepReplay::enqueue(const Bound& bound) {
  counter_.enter();
  try {
    bound.enqueued->enqueue(bound.lane->send, bound.lane->receive);
  } catch (const RefusedError& error) {
    bound.lane->communicator.check();
    throw UnsupportedError(error.what());
  }
}

void StepReplay::wait_for_stream(void* stream) {
  cclmark::wait_until_idle(device_, stream, [this] {
    for (const Membership& one : memberships_) one.communicator->check();
    rank_group_.check(RankGroup::kDevice);
  });
}

void StepReplay::wait_until_idle() {
  for (const Stream& stream : streams_) wait_for_stream(stream.get());
  for (const Stream& stream : traffic_streams_) wait_for_stream(stream.get());
  if (compute_stream_) wait_for_stream(compute_stream_->get());
  counter_.complete();
  for (const Membership& one : memberships_) one.communicator->check();
}

StepTimes StepReplay::run(double delay_s) {
  if (compute_ != nullptr && compute_s_ == 0) measure_compute();
  if (pause_ != nullptr && launch_s_ < 0) measure_launches();
  counter_.begin_batch();
  double lead_s = meet_on_host();
  ahead_s_ = 0;
  auto begin = Clock::now();
  begin_together(lead_s);
  if (delay_s > 0) {  // of a host that is late, after the devices of the others have begun
    delay_s += lead_s;
    std::this_thread::sleep_for(std::chrono::duration<double>(delay_s));
  }
  begin_step(true);
  for (size_t i = 0; i < calls_.size(); ++i) {
    const StepCall& call = calls_[i].call;
    keep_computing();  // what follows waits while the driver's queue is full
    keep_order(calls_[i]);
    pass_gap(i);
    device_.record(begins_[i].get(), stream_of(call));
    launch_traffic(i);
    enqueue(calls_[i]);
    device_.record(ends_[i].get(), stream_of(call));
  }
  StepTimes times;
  enqueue_s_ = std::max(0.0, seconds_between(begin, Clock::now()) - ahead_s_ - delay_s);
  times.enqueue_s = enqueue_s_;
  compute_until_idle();
  wait_until_idle();
  times.host_s = seconds_between(begin, Clock::now());
  for (size_t i = 0; i < calls_.size(); ++i) {
    times.end_s.push_back(device_.elapsed_s(reference_.get(), ends_[i].get()));
    double begin_s = device_.elapsed_s(reference_.get(), begins_[i].get());
    if (pause_ != nullptr) begin_s = std::min(begin_s + launch_s_, times.end_s.back());
    times.begin_s.push_back(begin_s);
  }
  return times;
}

std::vector<Checker::Count> StepReplay::verify(std::optional<size_t> corrupt) {
  std::vector<Checker::Count> counts(calls_.size(), {0, 0});
  const bool on_device = checked_on_host().empty();
  counter_.begin_batch();
  rank_group_.barrier();
  begin_step(false);
  for (size_t i = 0; i < calls_.size(); ++i) {
    const Bound& bound = calls_[i];
    void* stream = stream_of(bound.call);
    size_t width = size_bytes(bound.call.operation.dtype);
    bound.checker->begin();
    device_.fill_bytes(bound.lane->receive, kPoison, bound.output_bytes, stream);
    bound.checker->fill_input(bound.lane->send, bound.input_bytes);
    keep_order(bound);
    enqueue(bound);
    device_.record(ends_[i].get(), stream);
    if (corrupt && *corrupt < bound.output_bytes / width) {
      device_.fill_bytes(bound.lane->receive + *corrupt * width, kCorruption, width, stream);
      corrupt.reset();
    }
    for (const Segment& segment : bound.segments)
      bound.checker->check(bound.lane->receive, segment);
    if (on_device) {
      bound.checker->save(counts_.data() + i * Checker::kSavedBytes);
    } else {
      counts[i] = bound.checker->result();
    }
  }
  wait_until_idle();
  for (size_t i = 0; on_device && i < calls_.size(); ++i) {
    counts[i] = calls_[i].checker->saved(counts_.data() + i * Checker::kSavedBytes);
  }
  return counts;
}

size_t StepReplay::buffer_bytes() const {
  size_t bytes = 0;
  for (const auto& [key, lane] : lanes_) bytes += lane->room.send_bytes + lane->room.receive_bytes;
  return bytes;
}

std::string StepReplay::checked_on_host() const {
  for (const Bound& bound : calls_) {
    if (!bound.checker->no_kernels().empty()) return bound.checker->no_kernels();
  }
  return "";
}

}  // namespace cclmark
