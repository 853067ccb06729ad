#include "transfer/transfers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <new>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/waiting.hpp"
#include "transfer/kernel_arguments.hpp"

namespace cclmark {
namespace {

constexpr int kPoison = 0xa5;
constexpr size_t kWidth = sizeof(uint32_t);
constexpr double kNever = std::numeric_limits<double>::quiet_NaN();

constexpr unsigned kThreads = 512;
constexpr unsigned kBulkThreads = 32;
constexpr unsigned kBulkStages = 12;  // of cclmark_copy_bulk
constexpr unsigned kMostStageBytes = 16384;
// More than fill the links with reads only get into each other's way: on an H200 32 blocks read 0.2
// % faster than 132, while writes want them all.
constexpr unsigned kBulkReadBlocks = 32;
constexpr size_t kStageAlignment = 128;
constexpr size_t kHostAlignment = 256;  // of places in one block of host memory
constexpr int kBulkArchitecture = 90;
constexpr size_t kVectorBytes = 16;

const char* kernel_name(Engine engine) {
  switch (engine) {
    case Engine::cache_copy:
      return "cclmark_copy_cache";
    case Engine::nc_copy:
      return "cclmark_copy_nc";
    default:
      return "cclmark_copy_bulk";
  }
}

/// Threads that a multiprocessor holds at once (CUDA's programming guide, compute capabilities);
/// the least of all for devices whose number is not known.
unsigned resident_threads(int architecture) {
  switch (architecture) {
    case 60:
    case 70:
    case 80:
    case 90:
    case 100:
      return 2048;
    case 86:
    case 87:
    case 89:
    case 120:
      return 1536;
    default:
      return 1024;
  }
}

/// Blocks that a multiprocessor has room for at once, also for the registers of the kernel.
///
/// One launch copies several times. A block that begins when another one has ended would copy a
/// small part again and again from the cache, faster than any memory.
unsigned resident_blocks(Engine engine, unsigned threads, int architecture) {
  unsigned most = resident_threads(architecture);
  if (engine == Engine::nc_copy) most = 1024;
  if (engine == Engine::bulk_copy) most = 512;
  return std::max(1u, most / threads);
}

/// The most of the time of a copy, on average, in which the device waited for launches.
///
/// Copies of equal duration d that the device takes up in order, the k-th of n enqueued at a_k, end
/// at the greatest a_k + (n - k + 1) d. So d is at least the least (end - a_k) / (n - k + 1); the
/// measured mean contains the rest.
double launch_of(const std::vector<Clock::time_point>& enqueued, Clock::time_point begin,
                 double elapsed_s, double copies) {
  double least_s = elapsed_s / copies;
  double each = copies / static_cast<double>(enqueued.size());
  for (size_t k = 0; k < enqueued.size(); ++k) {
    double left = copies - each * static_cast<double>(k);
    least_s = std::min(least_s, (elapsed_s - seconds_between(begin, enqueued[k])) / left);
  }
  return elapsed_s / copies - std::max(0.0, least_s);
}

}  // namespace

const Kernel& Transfers::kernel_of(Device& device, const char* name) {
  try {
    return device.kernel(name);
  } catch (const OutOfMemoryError&) {
    throw;
  } catch (const Error& error) {
    throw UnsupportedError(error.what());
  }
}

Transfers::Station::Station(Device& owner, int number, int count)
    : device(owner),
      service((owner.activate(), owner)),
      origin(owner),
      checker(owner, service.get(), number, count) {}

Transfers::Station::~Station() {
  device.activate();
  release_host();
}

void Transfers::Station::release_host() noexcept {
  host_kind = FarEnd::device;
  host_bytes = 0;
  if (pinned != nullptr) device.release_pinned(pinned);
  pinned = nullptr;
  pageable.reset();
}

Transfers::Transfers(std::vector<Device*> devices, RankGroup& rank_group, uint32_t seed)
    : rank_group_(rank_group), seed_(seed), exchange_(devices, rank_group), gate_(*devices[0]) {
  content_.collective = Collective::broadcast;
  content_.dtype = Dtype::uint32;
  for (size_t i = 0; i < devices.size(); ++i) {
    int number = exchange_.first() + static_cast<int>(i);
    stations_.push_back(std::make_unique<Station>(*devices[i], number, exchange_.devices()));
    stations_.back()->checker.choose(content_, seed);
  }
  words_ = static_cast<uint32_t*>(devices[0]->allocate_pinned(kWords * sizeof(uint32_t)));
}

Transfers::~Transfers() {
  gate_.open();
  stations_[0]->device.activate();
  stations_[0]->device.release_pinned(words_);
}

size_t Transfers::free_memory_bytes() const {
  size_t least = std::numeric_limits<size_t>::max();
  for (const auto& station : stations_) {
    station->device.activate();
    least = std::min(least, station->device.free_memory_bytes());
  }
  return least;
}

void Transfers::together(const std::function<void()>& body) {
  constexpr double kFine = 0, kRefused = 1, kShort = 2;
  double kind = kFine;
  std::string reason;
  try {
    body();
  } catch (const OutOfMemoryError& error) {
    kind = kShort;
    reason = error.what();
  } catch (const UnsupportedError& error) {
    kind = kRefused;
    reason = error.what();
  } catch (const MissingError& error) {
    kind = kRefused;
    reason = error.what();
  }
  std::vector<double> kinds = rank_group_.gather(std::array<double, 1>{kind});
  double worst = std::ranges::max(kinds);
  if (worst == kFine) return;
  auto culprit = static_cast<int>(std::ranges::find(kinds, worst) - kinds.begin());
  reason = rank_group_.text_of(culprit, reason);
  if (worst == kShort) throw OutOfMemoryError(reason);
  throw UnsupportedError(reason);
}

bool Transfers::any(bool here) {
  return std::ranges::max(rank_group_.gather(std::array<double, 1>{here ? 1.0 : 0.0})) > 0;
}

std::vector<double> Transfers::share(const std::vector<double>& values) {
  std::vector<double> all = rank_group_.gather(values);
  std::vector<double> known(values.size(), kNever);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!std::isnan(all[i])) known[i % values.size()] = all[i];
  }
  return known;
}

void Transfers::reserve(size_t bytes, size_t landings) {
  if (bytes <= exchange_.capacity_bytes() && landings <= exchange_.landings()) return;
  exchange_.reserve(bytes, landings);
  for (int number = exchange_.first(); exchange_.owns(number); ++number) {
    Station& own = station(number);
    own.device.activate();
    own.checker.fill_input(exchange_.source(number, number), bytes);
    own.device.fill_bytes(exchange_.scratch(number, number), 0, Exchange::kScratchBytes,
                          own.service.get());
    finish(own);
  }
  mail_value_ = 0;
}

void Transfers::reserve_host(int number, size_t bytes, FarEnd kind) {
  Station& own = station(number);
  own.device.activate();
  own.release_host();
  if (kind == FarEnd::pinned) {
    own.pinned = static_cast<std::byte*>(own.device.allocate_pinned(bytes));
  } else {
    own.pageable.reset(new (std::nothrow) std::byte[bytes]());
    if (own.pageable == nullptr) {
      throw OutOfMemoryError("cannot allocate " + std::to_string(bytes) + " bytes of host memory");
    }
  }
  own.host_kind = kind;
  own.host_bytes = bytes;
}

std::byte* Transfers::host_memory(const Flow& flow) {
  Station& own = station(flow.runner);
  size_t room = transfer_.offset_bytes + transfer_.bytes;
  size_t place = flow.landing * ((room + kHostAlignment - 1) / kHostAlignment * kHostAlignment);
  if (flow.far != own.host_kind || place + room > own.host_bytes) {
    throw Error("the reserved host memory does not fit this transfer");
  }
  std::byte* begin = own.pinned != nullptr ? own.pinned : own.pageable.get();
  return begin + place + transfer_.offset_bytes;
}

/// Where the flow's runner writes to.
std::byte* Transfers::destination(const Flow& flow) {
  if (flow.to_host) return host_memory(flow);
  return exchange_.landing(flow.runner, flow.to, flow.landing) + transfer_.offset_bytes;
}

/// Where the flow's runner reads from.
const std::byte* Transfers::origin(const Flow& flow) {
  if (flow.far != FarEnd::device && !flow.to_host) return host_memory(flow);
  return exchange_.source(flow.runner, flow.from) + transfer_.offset_bytes;
}

void Transfers::open_way(const Flow& flow) {
  if (flow.far != FarEnd::device || flow.from == flow.to) return;
  int other = flow.runner == flow.from ? flow.to : flow.from;
  if (!exchange_.owns(other)) {
    if (transfer_.staged) {
      throw UnsupportedError("copies staged through the host require one process for all devices");
    }
    return;
  }
  Device& runner = station(flow.runner).device;
  Device& peer = station(other).device;
  if (transfer_.staged) {
    runner.close_access(peer);
    peer.close_access(runner);
  } else if (!runner.reaches(peer)) {
    throw UnsupportedError("the driver does not permit DEV" + std::to_string(runner.info().index) +
                           " to access DEV" + std::to_string(peer.info().index) +
                           ": use -a 1 (peer access off) to copy through the host");
  } else {
    runner.open_access(peer);
  }
}

/// Looks up the timed loop's data for a flow whose runner is a device of this process.
void Transfers::look_up(const Flow& flow, Move& move) {
  Station& runner = station(flow.runner);
  Device& device = runner.device;
  device.activate();
  open_way(flow);
  device.activate();  // the way may have been opened from its other end too
  while (runner.lanes.size() <= move.lane) runner.lanes.push_back(std::make_unique<Lane>(device));
  move.runner = &runner;
  move.to = destination(flow);
  move.from = origin(flow);
  if (flow.delay_s > 0) move.delay = &kernel_of(device, "cclmark_delay");
  if (transfer_.engine == Engine::copy_engine) return;
  if (flow.far == FarEnd::pageable) {
    throw UnsupportedError("kernels cannot access pageable host memory");
  }
  move.kernel = &kernel_of(device, kernel_name(transfer_.engine));
  auto processors = static_cast<unsigned>(std::max(1, device.info().multiprocessors));
  bool bulk =
      transfer_.engine == Engine::bulk_copy && device.info().architecture >= kBulkArchitecture;
  if (bulk) {
    size_t most = device.info().shared_bytes_per_block / kBulkStages;
    move.stage_bytes = static_cast<unsigned>(
        std::min<size_t>(kMostStageBytes, most / kStageAlignment * kStageAlignment));
    move.grid.shared_bytes = kBulkStages * move.stage_bytes;
  }
  move.grid.threads = transfer_.threads > 0 ? transfer_.threads : bulk ? kBulkThreads : kThreads;
  if (transfer_.blocks > 0) {
    move.grid.blocks = transfer_.blocks;
    return;
  }
  // No more than have something to do: to start them takes time.
  size_t share = bulk ? move.stage_bytes : size_t{move.grid.threads} * kVectorBytes;
  size_t busy = (transfer_.bytes + share - 1) / share;
  unsigned usual = bulk ? processors
                        : processors * resident_blocks(transfer_.engine, move.grid.threads,
                                                       device.info().architecture);
  bool reads = flow.far == FarEnd::device && flow.from != flow.to && flow.runner == flow.to;
  if (bulk && reads) usual = std::min(usual, kBulkReadBlocks);
  move.grid.blocks = static_cast<unsigned>(std::clamp<size_t>(busy, 1, usual));
}

void Transfers::prepare(const Transfer& transfer) {
  transfer_ = transfer;
  moves_.assign(transfer.flows.size(), {});
  if (transfer.offset_bytes + transfer.bytes > exchange_.capacity_bytes()) {
    throw Error("the reserved buffers are too small for this transfer");
  }
  std::vector<size_t> busy(static_cast<size_t>(exchange_.devices()), 0);
  together([&] {
    for (size_t i = 0; i < transfer.flows.size(); ++i) {
      const Flow& flow = transfer.flows[i];
      moves_[i].lane = busy[static_cast<size_t>(flow.runner)]++;
      if (exchange_.owns(flow.runner)) look_up(flow, moves_[i]);
    }
  });
  for (const Flow& flow : transfer.flows) {
    if (flow.far == FarEnd::device || flow.to_host || !exchange_.owns(flow.runner)) continue;
    Station& own = station(flow.runner);
    own.device.activate();
    own.device.copy_to_host(host_memory(flow),
                            exchange_.source(flow.runner, flow.runner) + transfer.offset_bytes,
                            transfer.bytes);
  }
}

/// Overwrites the data of earlier copies, so that the check covers the next ones.
void Transfers::poison() {
  for (const Flow& flow : transfer_.flows) {
    if (flow.to_host) {
      if (exchange_.owns(flow.runner)) std::memset(host_memory(flow), kPoison, transfer_.bytes);
      continue;
    }
    if (!exchange_.owns(flow.to)) continue;
    Station& target = station(flow.to);
    target.device.activate();
    target.device.fill_bytes(
        exchange_.landing(flow.to, flow.to, flow.landing) + transfer_.offset_bytes, kPoison,
        transfer_.bytes, target.service.get());
  }
  for (auto& own : stations_) finish(*own);
  rank_group_.barrier();
}

void Transfers::copy(const Flow& flow, const Move& move, unsigned rounds) {
  Device& device = move.runner->device;
  void* stream = move.runner->lanes[move.lane]->stream.get();
  if (move.kernel != nullptr) {
    CopyArguments arguments{reinterpret_cast<unsigned char*>(move.to),
                            reinterpret_cast<const unsigned char*>(move.from), transfer_.bytes,
                            rounds, move.stage_bytes};
    device.launch_grid(*move.kernel, &arguments, move.grid, stream);
  } else if (transfer_.staged && flow.far == FarEnd::device) {
    device.copy_between(move.to, station(flow.to).device, move.from, station(flow.from).device,
                        transfer_.bytes, stream);
  } else {
    device.copy_async(move.to, move.from, transfer_.bytes, stream);
  }
}

/// Begins a flow's sample on its lane.
void Transfers::begin(const Flow& flow, const Move& move) {
  Device& device = move.runner->device;
  Lane& lane = *move.runner->lanes[move.lane];
  device.activate();
  device.record(lane.begin.get(), lane.stream.get());
  if (move.delay != nullptr) {
    DelayArguments arguments{static_cast<unsigned long long>(flow.delay_s * 1e9)};
    device.launch_grid(*move.delay, &arguments, {}, lane.stream.get());
  }
}

/// Enqueues copies of a flow on its lane and returns the host's time in the calls.
double Transfers::enqueue(const Flow& flow, const Move& move, size_t iterations) {
  move.runner->device.activate();
  auto begin = Clock::now();
  bool at_once = transfer_.one_launch && move.kernel != nullptr;
  auto rounds = static_cast<unsigned>(at_once ? iterations : 1);
  for (size_t i = 0; i < iterations; i += rounds) copy(flow, move, rounds);
  return seconds_between(begin, Clock::now());
}

void Transfers::end(const Move& move) {
  Device& device = move.runner->device;
  device.activate();
  const Lane& lane = *move.runner->lanes[move.lane];
  device.record(lane.end.get(), lane.stream.get());
}

/// Whether all work of the lane ends before the deadline. Raises when some of it failed. Work that
/// does not end cannot be called back: what follows goes on in another lane.
bool Transfers::ends_before(Station& runner, std::unique_ptr<Lane>& lane,
                            const Deadline& deadline) {
  constexpr size_t kPollsPerCheck = 256;
  runner.device.activate();
  LongWait wait;
  for (size_t polls = 1; !runner.device.idle(lane->stream.get()); ++polls) {
    if (!wait.pause() && polls % kPollsPerCheck != 0) continue;
    rank_group_.check(RankGroup::kDevice);
    if (!deadline.passed()) continue;
    static_cast<void>(lane.release());
    lane = std::make_unique<Lane>(runner.device);
    return false;
  }
  return true;
}

void Transfers::finish(Station& own) {
  own.device.activate();
  wait_until_idle(own.device, own.service.get(), [this] { rank_group_.check(RankGroup::kDevice); });
}

/// Whether the runtime may wait inside the call until what it goes through in the host is free
/// again: behind a gate, for ever. Then the flows take turns, or the first would be over before the
/// next.
bool Transfers::waits_in_calls() const {
  return transfer_.staged || std::ranges::any_of(transfer_.flows, [](const Flow& flow) {
           return flow.far == FarEnd::pageable;
         });
}

void Transfers::choose_gate(GateKind kind) {
  gate_reason_.clear();
  bool any = kind == GateKind::automatic;
  for (GateKind one : {GateKind::stream_wait, GateKind::host_function, GateKind::events}) {
    if (!any && one != kind) continue;
    try {
      together([&] {
        for (auto& own : stations_) {
          if (!own->device.synchronous()) gate_.require(one, own->device);
        }
      });
      gate_.use(one);
      return;
    } catch (const UnsupportedError& error) {
      if (!any) throw;
      gate_reason_ += (gate_reason_.empty() ? "" : "; ") + std::string(error.what());
    }
  }
}

/// Enqueues all copies. `in_turn`: of all flows in turn, otherwise flow by flow.
void Transfers::enqueue_all(size_t iterations, bool in_turn, std::vector<FlowRun>& runs) {
  for (FlowRun& run : runs) {
    run.begin = Clock::now();
    begin(transfer_.flows[run.flow], moves_[run.flow]);
  }
  size_t turns = in_turn ? iterations : 1;
  for (size_t turn = 0; turn < turns; ++turn) {
    for (FlowRun& run : runs) {
      run.call_s += enqueue(transfer_.flows[run.flow], moves_[run.flow], iterations / turns);
      run.enqueued.push_back(Clock::now());
    }
  }
  for (FlowRun& run : runs) {
    end(moves_[run.flow]);
    run.call_s /= static_cast<double>(iterations);
  }
}

FlowTimes Transfers::run(size_t iterations, double limit_s) {
  const std::vector<Flow>& flows = transfer_.flows;
  bool in_call = stations_[0]->device.synchronous();
  bool waits = waits_in_calls();
  bool gated = !in_call && !waits && gate_.holds();
  bool measures_launch = !in_call && !waits && !gate_.holds();
  bool at_once = transfer_.one_launch && transfer_.engine != Engine::copy_engine;
  bool in_turn = !in_call && (waits || (measures_launch && !at_once));
  std::vector<double> device_s(flows.size(), kNever), call_s(flows.size(), kNever);
  std::vector<double> launch_s(flows.size(), kNever), late(flows.size(), kNever);
  std::vector<FlowRun> runs;

  poison();
  gate_.close(limit_s);
  struct Opener {  // whatever goes wrong, no device is left waiting
    Gate& gate;
    ~Opener() { gate.open(); }
  } opener{gate_};
  for (auto& own : stations_) {
    own->device.activate();
    own->device.record(own->origin.get(), own->service.get());
    finish(*own);
  }
  for (size_t i = 0; i < flows.size(); ++i) {
    if (moves_[i].runner == nullptr) continue;
    runs.emplace_back().flow = i;
    runs.back().enqueued.reserve(in_turn ? iterations : 1);
  }
  if (gated) {
    for (const FlowRun& run : runs) {
      const Move& move = moves_[run.flow];
      move.runner->device.activate();
      gate_.hold(move.runner->device, move.runner->lanes[move.lane]->stream.get());
    }
  } else {
    rank_group_.barrier();
  }
  enqueue_all(iterations, in_turn, runs);
  if (gated) rank_group_.barrier();
  Clock::time_point opened = Clock::now();
  gate_.open();
  Deadline deadline(limit_s);
  for (FlowRun& run : runs) {
    Move& move = moves_[run.flow];
    run.late = !ends_before(*move.runner, move.runner->lanes[move.lane], deadline);
    run.seen_end = Clock::now();
    late[run.flow] = run.late ? 1 : 0;
    call_s[run.flow] = run.call_s;
  }
  bool may_give_up = gated && gate_.kind() == GateKind::host_function;
  if (may_give_up && any(gate_.gave_up())) {
    gate_.use(GateKind::events);
    gate_reason_ = "a copy of " + stations_[0]->device.info().runtime +
                   " is not enqueued while a host function holds its stream";
    return this->run(iterations, limit_s);
  }
  FlowTimes times;
  auto since_origin = [](const Move& move, bool beginning) {
    Device& device = move.runner->device;
    device.activate();
    const Lane& lane = *move.runner->lanes[move.lane];
    return device.elapsed_s(move.runner->origin.get(),
                            beginning ? lane.begin.get() : lane.end.get());
  };
  const auto copies = static_cast<double>(iterations);
  for (const FlowRun& own : runs) {
    if (own.late) continue;
    // A device may take up its flows one after the other. What counts is from when it began with
    // the first of them.
    double begin_s = std::numeric_limits<double>::infinity();
    Clock::time_point begin = own.begin;
    for (const FlowRun& other : runs) {
      if (moves_[other.flow].runner != moves_[own.flow].runner || other.late) continue;
      begin_s = std::min(begin_s, since_origin(moves_[other.flow], true));
      begin = std::min(begin, other.begin);
    }
    double elapsed_s = since_origin(moves_[own.flow], false) - begin_s;
    if (std::isnan(elapsed_s)) {
      times.by_host = true;
      elapsed_s = seconds_between(gated ? opened : begin, own.seen_end);
    }
    device_s[own.flow] = elapsed_s / copies;
    launch_s[own.flow] = measures_launch ? launch_of(own.enqueued, begin, elapsed_s, copies) : 0;
  }
  times.device_s = share(device_s);
  times.launch_s = share(launch_s);
  times.call_s = share(call_s);
  times.by_host = any(times.by_host);
  for (double value : share(late)) times.timed_out.push_back(value > 0);
  return times;
}

Finding Transfers::look(const Flow& flow, std::optional<size_t> corrupt) {
  Station& own = station(flow.to);
  own.device.activate();
  std::byte* place = exchange_.landing(flow.to, flow.to, flow.landing);
  std::byte* data = place + transfer_.offset_bytes;
  if (flow.to_host) own.device.copy_from_host(data, host_memory(flow), transfer_.bytes);
  size_t first = transfer_.offset_bytes / kWidth, count = transfer_.bytes / kWidth;
  if (corrupt && *corrupt < count) {
    uint32_t element = 0;
    own.device.copy_to_host(&element, data + *corrupt * kWidth, kWidth);
    element = ~element;
    own.device.copy_from_host(data + *corrupt * kWidth, &element, kWidth);
  }
  Segment segment{first, count, flow.from, first};
  own.checker.begin();
  own.checker.check(place, segment);
  finish(own);
  Checker::Count counted = own.checker.result();
  if (counted.wrong == 0) return {};
  size_t index = counted.first_element - first;
  uint32_t actual = 0;
  own.device.copy_to_host(&actual, data + index * kWidth, kWidth);
  return {counted.wrong, index, own.checker.expected_bits(segment, index), actual};
}

std::vector<Finding> Transfers::verify(std::optional<size_t> corrupt, size_t corrupted_flow) {
  // A word of 64 bits may look like a number that is none: the halves never do.
  constexpr size_t kNumbers = 5;
  std::vector<double> values(transfer_.flows.size() * kNumbers, kNever);
  for (size_t i = 0; i < transfer_.flows.size(); ++i) {
    const Flow& flow = transfer_.flows[i];
    if (!exchange_.owns(flow.to)) continue;
    Finding found = look(flow, i == corrupted_flow ? corrupt : std::nullopt);
    double* own = values.data() + i * kNumbers;
    own[0] = static_cast<double>(found.wrong);
    own[1] = static_cast<double>(found.first_element);
    own[2] = static_cast<double>(found.expected_bits);
    own[3] = static_cast<double>(found.actual_bits);
    own[4] = 0;
  }
  std::vector<double> all = share(values);
  std::vector<Finding> findings;
  for (size_t i = 0; i < all.size(); i += kNumbers) {
    findings.push_back({static_cast<uint64_t>(all[i]), static_cast<uint64_t>(all[i + 1]),
                        static_cast<uint64_t>(all[i + 2]), static_cast<uint64_t>(all[i + 3])});
  }
  return findings;
}

}  // namespace cclmark
