#include "measure/session.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <thread>

#include "core/clock.hpp"

namespace cclmark {
namespace {

constexpr int kPoison = 0xa5;
constexpr size_t kAlignment = 512;
constexpr size_t kCachesPerBuffer = 3;
constexpr size_t kMostSpareBytes = size_t{1} << 28;
constexpr double kLeastLedIn = 10;  // operations: one more before them costs a tenth at most

size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// The largest value over all ranks, so that every rank places its messages alike.
size_t largest(size_t (*count)(const Operation&, int, int), const Operation& op, int ranks) {
  size_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) most = std::max(most, count(op, rank, ranks));
  return most * size_bytes(op.dtype);
}

}  // namespace

Room room_for(const Operation& operation, bool in_place, int ranks) {
  const CollectiveInfo& row = info(operation.collective);
  Room room{aligned(largest(row.send_count, operation, ranks)),
            aligned(largest(row.receive_count, operation, ranks))};
  if (in_place) {
    // Input and output share the receive buffer; the send buffer is where the input is put aside.
    room.receive_bytes = std::max(room.send_bytes, room.receive_bytes);
    if (!row.staged_in_place) room.send_bytes = 0;
  }
  return room;
}

Session::Session(Device& device, Team& team, Communicator& communicator, OperationCounter* counter)
    : device_(device),
      team_(team),
      communicator_(communicator),
      counter_(counter != nullptr ? *counter : uncounted_),
      stream_(device),
      start_(device),
      end_(device),
      checker_(device, stream_.get(), team.rank(), team.size()) {
  counter_.restart();
}

Session::~Session() {
  drop_graph();
  release();
}

void Session::release() noexcept {
  if (send_ != nullptr) communicator_.release(send_, registration_);
  if (receive_ != nullptr) communicator_.release(receive_, registration_);
  send_ = receive_ = nullptr;
  send_capacity_ = receive_capacity_ = 0;
  filled_with_.clear();
}

void Session::reserve(size_t send_bytes, size_t receive_bytes, Registration registration) {
  size_t spare = std::min(kCachesPerBuffer * device_.info().cache_bytes, kMostSpareBytes);
  // Host ranks share one cache among all their buffers.
  if (device_.info().runtime == "host") spare /= 2 * static_cast<size_t>(team_.size());
  send_bytes = aligned(std::max(send_bytes, spare));
  receive_bytes = aligned(std::max(receive_bytes, spare));
  if (registration == registration_ && send_bytes <= send_capacity_ &&
      receive_bytes <= receive_capacity_) {
    return;
  }
  call_.reset();
  drop_graph();
  release();
  registration_ = registration;
  // To enroll may be a collective call: no rank enters it before all have their memory.
  std::exception_ptr failure;
  try {
    send_ = static_cast<std::byte*>(communicator_.allocate(send_bytes, registration));
    receive_ = static_cast<std::byte*>(communicator_.allocate(receive_bytes, registration));
  } catch (const OutOfMemoryError&) {
    failure = std::current_exception();
  } catch (const UnsupportedError&) {
    failure = std::current_exception();
  }
  std::vector<double> failed = team_.gather(std::array<double, 1>{failure ? 1.0 : 0.0});
  if (failure) std::rethrow_exception(failure);
  if (std::ranges::count(failed, 1.0) > 0) {
    throw OutOfMemoryError("another rank could not allocate its buffers");
  }
  communicator_.enroll(send_, send_bytes, registration);
  communicator_.enroll(receive_, receive_bytes, registration);
  send_capacity_ = send_bytes;
  receive_capacity_ = receive_bytes;
}

void Session::prepare(const Operation& operation, bool in_place, uint32_t seed) {
  drop_graph();
  operation_ = operation;
  in_place_ = in_place;
  row_ = &info(operation.collective);
  Room room = room_for(operation, in_place, team_.size());
  send_stride_ = room.send_bytes;
  receive_stride_ = room.receive_bytes;
  if (send_stride_ > send_capacity_ || receive_stride_ > receive_capacity_) {
    throw Error("the reserved buffers are too small for this operation");
  }
  size_t most = std::numeric_limits<size_t>::max();
  slots_ = std::min(send_stride_ > 0 ? send_capacity_ / send_stride_ : most,
                    receive_stride_ > 0 ? receive_capacity_ / receive_stride_ : most);
  if (slots_ == most) slots_ = 1;
  input_ = input();
  output_ = output();
  checker_.choose(operation, seed);
  std::string content = std::string(name(operation.dtype)) + "/" +
                        (row_->reduces ? std::string(name(operation.reduction)) : "copy");
  if (content != filled_with_) {
    checker_.fill_input(send_, send_capacity_);
    checker_.fill_input(receive_, receive_capacity_);
    filled_with_ = content;
  }
  call_ = communicator_.bind(operation, stream_.get());
  readied_ = 0;
}

std::string Session::route() const {
  std::string route = communicator_.route(operation_);
  return in_place_ && row_->staged_in_place ? "copy aside, then " + route : route;
}

Session::Region Session::input() const {
  size_t width = size_bytes(operation_.dtype);
  int rank = team_.rank(), n = team_.size();
  size_t bytes = row_->send_count(operation_, rank, n) * width;
  if (!in_place_) return {send_, bytes};
  return {receive_ + row_->send_offset(operation_, rank, n) * width, bytes};
}

Session::Region Session::output() const {
  size_t width = size_bytes(operation_.dtype);
  int rank = team_.rank(), n = team_.size();
  size_t offset = in_place_ ? row_->receive_offset(operation_, rank, n) * width : 0;
  return {receive_ + offset, row_->receive_count(operation_, rank, n) * width};
}

/// The addresses passed to the library for a slot of the buffers.
Session::Ends Session::ends(size_t slot) const {
  std::byte* to = output_.data + slot * receive_stride_;
  if (in_place_ && row_->staged_in_place) return {send_ + slot * send_stride_, to};
  return {input_.data + slot * (in_place_ ? receive_stride_ : send_stride_), to};
}

/// Lets the library prepare its resources for the slots that so many operations use.
void Session::ready(size_t operations) {
  for (size_t most = std::min(operations, places_); readied_ < most; ++readied_) {
    Ends at = ends(readied_);
    call_->prepare(at.source, at.to);
  }
}

/// Enqueues the operation on a slot of the buffers.
void Session::issue(size_t slot) {
  Ends at = ends(slot);
  if (in_place_ && row_->staged_in_place) {
    const std::byte* input = input_.data + slot * receive_stride_;
    device_.copy_async(send_ + slot * send_stride_, input, input_.bytes, stream_.get());
  }
  counter_.enter();
  call_->enqueue(at.source, at.to);
  if (done_on_return_) counter_.complete();
}

/// Enqueues the operation on the slot whose turn it is.
void Session::issue_next() {
  issue(turn_);
  turn_ = turn_ + 1 < places_ ? turn_ + 1 : 0;
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
  cclmark::wait_until_idle(device_, stream_.get(), communicator_, team_);
  counter_.complete();
}

/// Returns once every rank has called it.
void Session::meet(const Batch& batch) {
  if (!batch.library_barrier) {
    team_.barrier();
    return;
  }
  counter_.enter();
  barrier_->enqueue(nullptr, nullptr);
  wait_until_idle();
}

Samples Session::gather(const std::vector<double>& host_s, const std::vector<double>& device_s,
                        const std::vector<double>& enqueue_s) {
  return {host_s.size(), team_.gather(host_s), team_.gather(device_s), team_.gather(enqueue_s)};
}

static void hold_back(const Batch& batch) {
  if (batch.delay_s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(batch.delay_s));
}

/// Between two events on the device's clock; NaN where they tell nothing.
double Session::elapsed_s(const Event& from, const Event& to) {
  if (communicator_.blocking()) return std::numeric_limits<double>::quiet_NaN();
  return device_.elapsed_s(from.get(), to.get());
}

void Session::begin(const Batch& batch) {
  // Every batch walks through the buffers from their beginning, so that all samples of a case touch
  // the same memory: what a graph replays, what a batch enqueues, and what nccl-tests times.
  turn_ = 0;
  places_ = batch.warm ? 1 : slots_;
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
  void* graph = replay ? graph_of(batch) : nullptr;
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
  for (size_t i = 0; i < lead; ++i) launch(graph);
  device_.record(start_.get(), stream_.get());
  if (replay) {
    for (size_t i = 0; i < launches; ++i) launch(graph);
  } else {
    issue_all(batch);
  }
  device_.record(end_.get(), stream_.get());
  auto enqueued = Clock::now();
  wait_until_idle();
  auto end = Clock::now();
  communicator_.check();
  double of_host =
      operations * static_cast<double>(lead + launches) / static_cast<double>(launches);
  return gather({seconds_between(begin, end) / of_host}, {elapsed_s(start_, end_) / operations},
                {seconds_between(begin, enqueued) / of_host});
}

Samples Session::run_singly(const Batch& batch) {
  // They are part of what the host waits for: none unless asked for, and where they tell something.
  bool events = batch.events && !communicator_.blocking();
  std::vector<double> host_s, device_s, enqueue_s;
  for (size_t i = 0; i < batch.iterations; ++i) {
    meet(batch);
    auto begin = Clock::now();
    hold_back(batch);
    if (events) device_.record(start_.get(), stream_.get());
    issue_next();
    if (events) device_.record(end_.get(), stream_.get());
    auto enqueued = Clock::now();
    wait_until_idle();
    host_s.push_back(seconds_between(begin, Clock::now()));
    device_s.push_back(events ? elapsed_s(start_, end_) : std::numeric_limits<double>::quiet_NaN());
    enqueue_s.push_back(seconds_between(begin, enqueued));
  }
  communicator_.check();
  return gather(host_s, device_s, enqueue_s);
}

Samples Session::run_with_events(const Batch& batch) {
  while (marks_.size() < batch.iterations + 1) marks_.emplace_back(device_);
  meet(batch);
  auto begin = Clock::now();
  hold_back(batch);
  device_.record(marks_[0].get(), stream_.get());
  for (size_t i = 0; i < batch.iterations; ++i) {
    issue_next();
    device_.record(marks_[i + 1].get(), stream_.get());
  }
  auto enqueued = Clock::now();
  wait_until_idle();
  auto end = Clock::now();
  communicator_.check();
  std::vector<double> device_s;
  for (size_t i = 0; i < batch.iterations; ++i) {
    device_s.push_back(elapsed_s(marks_[i], marks_[i + 1]));
  }
  auto operations = static_cast<double>(batch.iterations);
  std::vector<double> host_s(batch.iterations, seconds_between(begin, end) / operations);
  std::vector<double> enqueue_s(batch.iterations, seconds_between(begin, enqueued) / operations);
  return gather(host_s, device_s, enqueue_s);
}

std::string Session::no_graphs() const {
  std::string of_library = communicator_.no_graphs();
  return of_library.empty() ? device_.no_graphs() : of_library;
}

/// Rethrows what ended a capture: what a library or a device refused leaves out the graph only.
[[noreturn]] static void rethrow_as_uncaptured() {
  try {
    throw;
  } catch (const Error& error) {
    bool ends_run = dynamic_cast<const TimeoutError*>(&error) != nullptr ||
                    dynamic_cast<const AbortedError*>(&error) != nullptr;
    if (ends_run) throw;
    throw UnsupportedError(std::string("operations were not captured in a graph: ") + error.what());
  }
}

void Session::capture(const Batch& batch) {
  if (std::string reason = no_graphs(); !reason.empty()) throw UnsupportedError(reason);
  size_t operations = batch.iterations * batch.group;
  if (graph_ != nullptr && graph_operations_ == operations) return;
  drop_graph();
  begin(batch);
  uint64_t entered = counter_.entered();
  try {
    device_.begin_capture(stream_.get());
    issue_all(batch);
    graph_ = device_.end_capture(stream_.get());
  } catch (...) {
    device_.abandon_capture(stream_.get());
    counter_.take_back_to(entered);
    rethrow_as_uncaptured();
  }
  graph_operations_ = operations;
  graph_uploaded_ = false;
  counter_.take_back_to(entered);
}

/// The graph of the batch's operations, launched once: its first launch also uploads it.
void* Session::graph_of(const Batch& batch) {
  capture(batch);
  if (!graph_uploaded_) {
    launch(graph_);
    wait_until_idle();
    graph_uploaded_ = true;
  }
  return graph_;
}

void Session::launch(void* graph) {
  counter_.enter(graph_operations_);
  device_.launch_graph(graph, stream_.get());
}

void Session::drop_graph() noexcept {
  if (graph_ != nullptr) device_.destroy_graph(graph_);
  graph_ = nullptr;
}

Verdict Session::verify(std::optional<size_t> corrupt) {
  auto segments = row_->expected(operation_, team_.rank(), team_.size());
  Region from = input_, to = output_;
  checker_.begin();
  device_.fill_bytes(to.data, kPoison, to.bytes, stream_.get());
  checker_.fill_input(from.data, from.bytes);
  ready(1);
  issue(0);
  wait_until_idle();
  communicator_.check();
  if (corrupt) flip(to, *corrupt);
  device_.record(start_.get(), stream_.get());
  for (const Segment& segment : segments) checker_.check(to.data, segment);
  device_.record(end_.get(), stream_.get());
  wait_until_idle();
  Finding own = describe(checker_.result(), to, segments);

  auto pack = [](uint64_t bits) { return std::bit_cast<double>(bits); };
  constexpr size_t kWords = 5;
  std::vector<double> all = team_.gather(std::array<double, kWords>{
      pack(own.wrong), pack(own.first_element), pack(own.expected_bits), pack(own.actual_bits),
      device_.elapsed_s(start_.get(), end_.get())});
  Verdict verdict;
  for (size_t i = 0; i < all.size(); i += kWords) {
    auto unpack = [&](size_t k) { return std::bit_cast<uint64_t>(all[i + k]); };
    verdict.findings.push_back({unpack(0), unpack(1), unpack(2), unpack(3)});
    verdict.compare_s = std::max(verdict.compare_s, all[i + 4]);
  }
  return verdict;
}

/// Inverts the bits of one element of the output, if it has so many.
void Session::flip(const Region& output, size_t index) {
  size_t width = size_bytes(operation_.dtype);
  if (index >= output.bytes / width) return;
  std::array<std::byte, 8> element{};
  device_.copy_to_host(element.data(), output.data + index * width, width);
  for (std::byte& byte : element) byte = ~byte;
  device_.copy_from_host(output.data + index * width, element.data(), width);
}

/// Describes the first wrong element: the expected and the actual value.
Finding Session::describe(const Checker::Count& count, const Region& output,
                          const std::vector<Segment>& segments) {
  if (count.wrong == 0) return {};
  Finding finding{count.wrong, count.first_element, 0, 0};
  size_t width = size_bytes(operation_.dtype);
  device_.copy_to_host(&finding.actual_bits, output.data + count.first_element * width, width);
  for (const Segment& segment : segments) {
    if (count.first_element < segment.output_element) continue;
    size_t offset = count.first_element - segment.output_element;
    if (offset < segment.count) finding.expected_bits = checker_.expected_bits(segment, offset);
  }
  return finding;
}

}  // namespace cclmark
