#include "measure/session.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <limits>
#include <thread>

#include "core/clock.hpp"

namespace cclmark {
namespace {

constexpr double kLeastLedIn = 10;  // operations: one more before them costs a tenth at most
// The numbers of marks: of what is timed as a whole, and the first of single operations.
constexpr size_t kStart = 0, kEnd = 1, kFirst = 2;
// Between two graphs. After 64 of them, on H200, most graphs are as fast as the one before.
constexpr size_t kSpaceKernels = 256;

/// The arguments of cclmark_space, as in kernels/pattern.cu.
struct GraphSpace {
  std::array<unsigned long long, 480> unused;
};

}  // namespace

Session::Session(Device& device, RankGroup& rank_group, Communicator& communicator,
                 OperationCounter* counter)
    : device_(device),
      rank_group_(rank_group),
      communicator_(communicator),
      counter_(counter != nullptr ? *counter : uncounted_),
      stream_(device),
      verification_(device, stream_.get(), rank_group, communicator),
      buffers_(device, rank_group, communicator) {
  provide_marks(kFirst);
  counter_.restart();
}

void Session::reserve(size_t send_bytes, size_t receive_bytes, const BufferKind& kind) {
  Room room{send_bytes, receive_bytes};
  if (buffers_.suffice(room, kind)) return;
  settle();
  call_.reset();
  graphs_.clear();
  spaces_.clear();
  buffers_.allocate(room, kind);
}

void Session::prepare(const Operation& operation, bool in_place, uint32_t seed,
                      const Pieces& pieces) {
  graphs_.clear();
  spaces_.clear();
  operation_ = operation;
  buffers_.divide(operation, in_place);
  verification_.prepare(operation, seed, buffers_);
  call_ = bind_pieces(communicator_, operation, pieces, stream_.get());
  readied_ = 0;
  is_accepted_ = false;
}

std::string Session::route() const {
  std::string route = communicator_.route(operation_);
  return buffers_.is_staged() ? "copy aside, then " + route : route;
}

std::string Session::kernel() const {
  return call_ != nullptr ? call_->kernel() : "";
}

std::vector<PlannedStep> Session::steps() const {
  if (call_ == nullptr) return {};
  std::vector<PlannedStep> steps = call_->steps();
  const MessageBuffers::Ends at = buffers_.ends(0);
  std::erase_if(steps, [&](const PlannedStep& step) {
    const Place &from = step.reads, &to = step.writes;
    bool same = from.space == to.space ? from.offset == to.offset
                                       : from.space == Space::input && to.space == Space::output &&
                                             at.source + from.offset == at.to + to.offset;
    return same && step.is_local() && !step.combines;
  });
  return steps;
}

/// Lets the library prepare its resources for the slots that so many operations use, and has their
/// inputs in place, which are filled on the engine's stream.
void Session::ready(size_t operations) {
  for (size_t most = std::min(operations, buffers_.used_slots()); readied_ < most; ++readied_) {
    MessageBuffers::Ends at = buffers_.ends(readied_);
    call_->prepare(at.source, at.to);
  }
  if (communicator_.own_stream() != nullptr) wait_until_idle();
}

/// Enqueues the operation on a slot of the buffers.
void Session::issue(size_t slot) {
  MessageBuffers::Ends at = buffers_.ends(slot);
  if (buffers_.is_staged()) {
    buffers_.stage(slot, stream_.get());
    if (communicator_.own_stream() != nullptr) wait_until_idle();
  }
  counter_.enter();
  try {
    call_->enqueue(at.source, at.to);
  } catch (const RefusedError& error) {
    throw_refusal(error.what());
  } catch (const UnsupportedError& error) {
    throw_refusal(error.what());
  }
  is_accepted_ = true;
  if (done_on_return_) counter_.complete();
}

/// An operation that a library does not support is refused in its first call, before anything of it
/// is enqueued. A refusal of a later call is a failure, and so is one by a broken communicator.
void Session::throw_refusal(const std::string& reason) {
  if (is_accepted_) throw Error(reason);
  communicator_.check();
  throw UnsupportedError(reason);
}

void Session::issue_next() {
  issue(buffers_.next_slot());
}

void Session::issue_all(const Batch& batch) {
  for (size_t i = 0; i < batch.iterations; ++i) {
    if (batch.group <= 1) {
      issue_next();
      continue;
    }
    in_group([this] { communicator_.begin_group(); },
             [&] {
               for (size_t k = 0; k < batch.group; ++k) issue_next();
             },
             [this] { communicator_.end_group(); });
  }
}

void Session::wait_until_idle() {
  cclmark::wait_until_idle(device_, stream_.get(), communicator_, rank_group_);
  counter_.complete();
}

/// Waits for the work that uses the buffers before they are released: other than cuMemFree, what
/// unmaps memory does not, and ncclMemFree is that.
void Session::settle() noexcept {
  try {
    wait_until_idle();
  } catch (const Error&) {
    // The work failed, or another rank did: the run ends.
  }
}

/// Returns once every rank has called it.
void Session::meet(const Batch& batch) {
  if (!batch.library_barrier) {
    rank_group_.barrier();
    return;
  }
  counter_.enter();
  barrier_->enqueue(nullptr, nullptr);
  wait_until_idle();
}

Samples Session::gather(const std::vector<double>& host_s, const std::vector<double>& device_s,
                        const std::vector<double>& enqueue_s) {
  return {host_s.size(), rank_group_.gather(host_s), rank_group_.gather(device_s),
          rank_group_.gather(enqueue_s)};
}

static void hold_back(const Batch& batch) {
  if (batch.delay_s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(batch.delay_s));
}

void Session::provide_marks(size_t count) {
  while (marks_.size() < count) marks_.emplace_back(device_);
}

/// Records a mark behind the operations so far, on the stream that they run on.
void Session::mark(size_t number) {
  if (OwnStream* own = communicator_.own_stream()) return own->record(number);
  device_.record(marks_[number].get(), stream_.get());
}

/// Between two marks on the device's clock; NaN where they measure nothing.
double Session::elapsed_s(size_t from, size_t to) {
  if (communicator_.blocking()) return std::numeric_limits<double>::quiet_NaN();
  if (OwnStream* own = communicator_.own_stream()) return own->elapsed_s(from, to);
  return device_.elapsed_s(marks_[from].get(), marks_[to].get());
}

void Session::begin(const Batch& batch) {
  // Every batch starts from the first slot of the buffers, so that all samples of a case touch
  // the same memory: what a graph replays, what a batch enqueues, and what nccl-tests times.
  buffers_.restart(batch.warm);
  done_on_return_ = batch.group <= 1 && (device_.synchronous() || communicator_.blocking());
  ready(batch.iterations * batch.group);
}

Samples Session::run(const Batch& batch) {
  begin(batch);
  counter_.begin_batch();
  if (batch.library_barrier && barrier_ == nullptr) {
    Operation barrier;
    barrier.collective = Collective::barrier;
    barrier_ = communicator_.bind(barrier, stream_.get());
    barrier_->prepare(nullptr, nullptr);
  }
  switch (batch.timing) {
    case Timing::blocking:
      return run_singly(batch);
    case Timing::per_op:
      return run_with_events(batch);
    default:
      return run_batch(batch);
  }
}

Samples Session::run_batch(const Batch& batch) {
  bool replay = batch.timing == Timing::graph;
  CapturedGraph* graph = replay ? &upload_graph(batch) : nullptr;
  size_t launches = replay ? batch.graph_launches : 1;
  size_t lead = replay ? batch.lead_launches : 0;
  auto operations = static_cast<double>(batch.iterations * batch.group * launches);
  if (operations >= kLeastLedIn) {
    // After one operation, waited for, all ranks start awake and as good as together. By how much
    // they do not decides for a whole batch how operations between neighbours fall into step.
    issue(0);
    wait_until_idle();
  }
  meet(batch);
  auto begin = Clock::now();
  hold_back(batch);
  // While the device replays these, the host enqueues what follows: no launch is in the event time.
  for (size_t i = 0; i < lead; ++i) graph->launch();
  mark(kStart);
  if (replay) {
    for (size_t i = 0; i < launches; ++i) graph->launch();
  } else {
    issue_all(batch);
  }
  mark(kEnd);
  auto enqueued = Clock::now();
  wait_until_idle();
  auto end = Clock::now();
  communicator_.check();
  double of_host =
      operations * static_cast<double>(lead + launches) / static_cast<double>(launches);
  return gather({seconds_between(begin, end) / of_host}, {elapsed_s(kStart, kEnd) / operations},
                {seconds_between(begin, enqueued) / of_host});
}

Samples Session::run_singly(const Batch& batch) {
  // The host waits for events too: none are recorded unless requested and where they measure time.
  bool events = batch.events && !communicator_.blocking();
  std::vector<double> host_s, device_s, enqueue_s;
  for (size_t i = 0; i < batch.iterations; ++i) {
    meet(batch);
    auto begin = Clock::now();
    hold_back(batch);
    if (events) mark(kStart);
    issue_next();
    if (events) mark(kEnd);
    auto enqueued = Clock::now();
    wait_until_idle();
    host_s.push_back(seconds_between(begin, Clock::now()));
    device_s.push_back(events ? elapsed_s(kStart, kEnd) : std::numeric_limits<double>::quiet_NaN());
    enqueue_s.push_back(seconds_between(begin, enqueued));
  }
  communicator_.check();
  return gather(host_s, device_s, enqueue_s);
}

Samples Session::run_with_events(const Batch& batch) {
  provide_marks(kFirst + batch.iterations + 1);
  meet(batch);
  auto begin = Clock::now();
  hold_back(batch);
  mark(kFirst);
  for (size_t i = 0; i < batch.iterations; ++i) {
    issue_next();
    mark(kFirst + i + 1);
  }
  auto enqueued = Clock::now();
  wait_until_idle();
  auto end = Clock::now();
  communicator_.check();
  std::vector<double> device_s;
  for (size_t i = 0; i < batch.iterations; ++i) {
    device_s.push_back(elapsed_s(kFirst + i, kFirst + i + 1));
  }
  auto operations = static_cast<double>(batch.iterations);
  std::vector<double> host_s(batch.iterations, seconds_between(begin, end) / operations);
  std::vector<double> enqueue_s(batch.iterations, seconds_between(begin, enqueued) / operations);
  return gather(host_s, device_s, enqueue_s);
}

TracedOperations Session::trace(size_t operations, bool events) {
  Batch batch;
  batch.iterations = operations;
  begin(batch);
  counter_.begin_batch();
  events = events && !communicator_.blocking() && !device_.synchronous() &&
           communicator_.own_stream() == nullptr;
  TracedOperations traced;
  traced.call_begin_ns.reserve(operations);
  traced.call_end_ns.reserve(operations);
  if (events) {
    provide_marks(kFirst + 2 * operations);
    traced.reference = record_reference(device_, stream_.get(), marks_[kEnd], marks_[kStart],
                                        [this] { wait_until_idle(); });
  }
  rank_group_.barrier();
  for (size_t i = 0; i < operations; ++i) {
    traced.call_begin_ns.push_back(now_ns());
    if (events) mark(kFirst + 2 * i);
    issue_next();
    if (events) mark(kFirst + 2 * i + 1);
    traced.call_end_ns.push_back(now_ns());
  }
  wait_until_idle();
  traced.complete_ns = now_ns();
  communicator_.check();
  for (size_t i = 0; events && i < operations; ++i) {
    traced.device_begin_s.push_back(elapsed_s(kStart, kFirst + 2 * i));
    traced.device_end_s.push_back(elapsed_s(kStart, kFirst + 2 * i + 1));
  }
  return traced;
}

Concurrency& Session::concurrency() {
  if (concurrency_ == nullptr) {
    concurrency_ =
        std::make_unique<Concurrency>(device_, rank_group_, communicator_, stream_.get());
  }
  return *concurrency_;
}

ConcurrentTimes Session::run_beside(const Spans& operations, const Spans& products,
                                    Compute& compute) {
  Batch batch;
  batch.iterations = operations.count * operations.operations;
  begin(batch);
  counter_.begin_batch();
  StreamTimes own = concurrency().run(operations, [this] { issue_next(); }, products, &compute);
  counter_.complete();
  auto by_rank = [this](const std::vector<double>& values) {
    std::vector<std::vector<double>> rows(static_cast<size_t>(ranks()));
    if (values.empty()) return rows;
    std::vector<double> all = rank_group_.gather(values);
    for (size_t rank = 0; rank < rows.size(); ++rank) {
      auto first = all.begin() + static_cast<std::ptrdiff_t>(rank * values.size());
      rows[rank].assign(first, first + static_cast<std::ptrdiff_t>(values.size()));
    }
    return rows;
  };
  return {by_rank(own.communication_s), by_rank(own.compute_s),
          rank_group_.gather({&own.enqueue_s, 1}), rank_group_.gather({&own.host_s, 1})};
}

std::string Session::no_graphs() const {
  std::string of_library = communicator_.no_graphs();
  return of_library.empty() ? device_.no_graphs() : of_library;
}

void Session::capture(const Batch& batch) {
  if (std::string reason = no_graphs(); !reason.empty()) throw UnsupportedError(reason);
  size_t operations = batch.iterations * batch.group;
  while (graphs_.size() <= batch.graph) {
    graphs_.push_back(std::make_unique<CapturedGraph>(device_, stream_.get(), counter_));
  }
  CapturedGraph& graph = *graphs_[batch.graph];
  if (graph.holds(operations)) return;
  if (batch.graph > 0) place_apart();
  begin(batch);
  graph.capture(operations, [&] { issue_all(batch); });
}

bool Session::spaces_graphs() {
  try {
    device_.kernel("cclmark_space");
  } catch (const Error&) {  // as without a compiler
    return false;
  }
  return true;
}

/// Takes memory of the driver, so that the next graph is placed elsewhere than the one before: the
/// time of a graph depends on its place, and graphs side by side are equally fast.
void Session::place_apart() {
  const Kernel& kernel = device_.kernel("cclmark_space");
  GraphSpace unused{};
  auto space = std::make_unique<CapturedGraph>(device_, stream_.get(), uncounted_);
  space->capture(kSpaceKernels, [&] {
    for (size_t i = 0; i < kSpaceKernels; ++i) {
      device_.launch_grid(kernel, &unused, {}, stream_.get());
    }
  });
  spaces_.push_back(std::move(space));
}

/// Captures the batch's operations and launches their graph once.
CapturedGraph& Session::upload_graph(const Batch& batch) {
  capture(batch);
  CapturedGraph& graph = *graphs_[batch.graph];
  if (!graph.is_uploaded()) {
    graph.launch();
    wait_until_idle();
    graph.set_uploaded();
  }
  return graph;
}

std::vector<MemoryBlock> Session::memory_blocks() const {
  std::vector<MemoryBlock> blocks = buffers_.memory_blocks(
      verification_.first_inputs(buffers_.input().bytes), verification_.first_outputs());
  auto append = [&](std::vector<MemoryBlock> more) {
    std::ranges::move(more, std::back_inserter(blocks));
  };
  append(verification_.memory_blocks());
  blocks.push_back(rank_group_.memory_block());
  append(communicator_.memory_blocks());
  return blocks;
}

VerificationResult Session::verify(std::optional<size_t> corrupt) {
  auto run_once = [this] {
    ready(1);
    issue(0);
    wait_until_idle();
    communicator_.check();
  };
  return verification_.verify(buffers_, run_once, corrupt);
}

VerificationResult Session::verify_beside(const Spans& products, Compute& compute,
                                          std::optional<size_t> corrupt) {
  concurrency().poison(compute);
  auto run_once = [&] {
    ready(1);
    concurrency().run({.count = 1, .operations = 1}, [this] { issue(0); }, products, &compute);
    counter_.complete();
  };
  return verification_.verify(buffers_, run_once, corrupt);
}

ComputeFinding Session::check_compute(Compute& compute) {
  return concurrency().check(compute);
}

}  // namespace cclmark
