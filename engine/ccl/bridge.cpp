// Ranks of several libraries, or of several runtimes, in one group.
//
// Ranks that share a library form an island, and the library does what stays within it. What
// crosses goes through slots: every rank has a few, in memory that the others can read. A rank
// *publishes* when one of its slots holds the next stretch of data, and *takes* what others have
// published: by peer copies from their devices' memory where all devices reach each other, else by
// copies from pinned host memory that the publisher has copied it to. A reduction over islands is a
// kernel that adds what was taken.
//
// Who publishes what to whom in which order is known to all ranks beforehand: an operation is a
// list of steps, in each of which a rank publishes once at most. So a flag per rank that counts
// what it has published, and one per reader that counts what it has taken, are all that is ever
// waited for. Both are words in shared host memory that the devices' streams wait for and write
// themselves: the host only enqueues. Where streams cannot do that (the host's own, and runtimes
// without such calls), the host waits and writes instead, inside the call.

#include "ccl/bridge.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "collective/table.hpp"
#include "core/waiting.hpp"
#include "device/host.hpp"
#include "device/peer_blocks.hpp"

namespace cclmark {
namespace {

// For the structure that the kernel takes; what it does is compiled elsewhere.
#include "kernels/dialect.cu"
#include "kernels/reduce.cu"

constexpr size_t kSlots = 4;
/// Steps that are published ahead of the one that is taken; fewer than there are slots.
constexpr size_t kAhead = 2;
/// Large enough that what every step costs besides is little, small enough that what goes out of a
/// device and what comes in overlap soon: a link between devices is some seven times as fast as one
/// to the host.
constexpr size_t kDirectSlotBytes = size_t{16} << 20;
constexpr size_t kHostSlotBytes = size_t{4} << 20;
/// Up to here every rank takes whole results of the other islands: the time of a second operation
/// within the island is more than what is saved by taking less.
constexpr size_t kWholeBytes = size_t{256} << 10;
constexpr size_t kLine = 64;
constexpr size_t kPage = 4096;
constexpr size_t kVector = 16;

double number_of(std::string_view runtime) {
  uint32_t hash = 2166136261u;
  for (char letter : runtime) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619u;
  return hash;
}

/// Memory of this host that all ranks map: flags, then slots.
struct HostBlock {
  std::byte* base = nullptr;
  std::byte* for_device = nullptr;  ///< where the device finds it
  size_t bytes = 0;
  bool pinned = false;
};

/// Something to take out of what a rank published.
struct Take {
  int source;
  size_t at;  ///< in the source's slot
  size_t bytes;
  size_t to;  ///< in the output
  /// Reductions only: what it is added to lies there in this rank's own slot, else in the output.
  bool to_own_slot = false;
  size_t own_at = 0;
  bool last = false;  ///< nothing else is added to these elements
};

/// What a rank does between two looks at its neighbours. Offsets and sizes are in bytes.
struct Step {
  using Action = std::function<void(const std::byte* send, std::byte* receive, std::byte* slot)>;

  /// Into the slot, if this rank publishes; or whatever else the island does. On the main stream.
  Action work;
  bool publishes = false;
  std::vector<int> readers;
  size_t bytes = 0;
  size_t from = 0;  ///< without `work`: what is published is a copy of this part of the input

  std::vector<int> publishers;  ///< all ranks that publish in this step
  std::vector<Take> takes;
  bool reduces = false;
  /// After all that. On the main stream.
  std::function<void(std::byte* receive)> finish;
};

class Bridge final : public Communicator {
 public:
  Bridge(Device& device, Team& team, const Islands& islands, Communicator* own);
  ~Bridge() override;

  std::unique_ptr<Call> bind(const Operation& operation, void* stream) override;

  std::string route(const Operation&) const override {
    return std::to_string(firsts_.size()) + " islands, " +
           (direct_ ? "direct peer copies" : "through pinned host memory") +
           (host_reduces_ != nullptr ? ", reduced on the host" : "");
  }

  void* allocate(size_t bytes, Registration registration) override {
    if (registration != Registration::none) {
      throw UnsupportedError("between islands registered buffers change nothing");
    }
    return device_.allocate(bytes);
  }
  void enroll(void*, size_t, Registration) override {}
  void release(void* memory, Registration) noexcept override { device_.release(memory); }

  bool blocking() const override { return !on_streams_ && !device_.synchronous(); }
  /// The flags count on with every call, and a graph would repeat the same numbers.
  bool capturable() const override { return false; }

  void check() override {
    if (island_ != nullptr) island_->check();
  }

 private:
  friend class BridgeCall;
  friend class Planner;

  void choose_way(bool through_host);
  void open_blocks();
  void prove_streams();

  int island_of(int rank) const {
    auto next = std::ranges::upper_bound(firsts_, rank);
    return static_cast<int>(next - firsts_.begin()) - 1;
  }
  int first_of(int island) const { return firsts_[static_cast<size_t>(island)]; }
  int ranks_of(int island) const {
    auto next = static_cast<size_t>(island) + 1;
    return (next < firsts_.size() ? firsts_[next] : size_) - first_of(island);
  }

  HostBlock& host(int rank) { return hosts_[static_cast<size_t>(rank)]; }
  static size_t ready_flag() { return 0; }
  static size_t taken_flag(int reader) { return kLine * (1 + static_cast<size_t>(reader)); }
  size_t flag_bytes() const { return (taken_flag(size_) + kPage - 1) / kPage * kPage; }
  size_t place(uint32_t sequence) const { return sequence % kSlots * slot_bytes_; }

  void await(int owner, size_t flag, uint32_t value, void* stream);
  void tell(int owner, size_t flag, uint32_t value, void* stream);
  void join(void* waiting, void* awaited);
  void publish(const Step& step, const std::byte* send, std::byte* receive);
  void take(const Step& step, std::byte* receive);
  void reduce(std::byte* out, const std::byte* a, const std::byte* b, const Take& piece);
  void run(const std::vector<Step>& steps, const std::byte* send, std::byte* receive);
  bool sends_apart(const Step& step) const {
    return step.publishes && step.bytes > 0 && (!step.work || !direct_);
  }
  bool takes_apart(const Step& step) const {
    return !step.takes.empty() && !(step.reduces && direct_);
  }

  Device& device_;
  Team& team_;
  Communicator* island_;
  std::vector<int> firsts_;
  int rank_;
  int size_;
  int mine_;   ///< this rank's island
  int index_;  ///< this rank's number in it

  bool direct_ = false;
  bool on_streams_ = false;
  size_t slot_bytes_ = 0;
  std::vector<HostBlock> hosts_;
  PeerBlocks blocks_;
  Buffer own_slots_, landings_;  ///< where they do not lie in a block of their own
  std::byte* slots_ = nullptr;
  std::vector<std::byte*> peers_;  ///< direct only: the slots of all ranks

  // Of the operation at hand.
  void* main_ = nullptr;
  Dtype dtype_{};
  Reduction reduction_{};
  unsigned divisor_ = 1;

  void* out_ = nullptr;
  void* in_ = nullptr;
  void* event_ = nullptr;
  std::array<void*, kSlots> reduced_{};  ///< when a landing may be used again
  size_t landed_ = 0;

  struct Published {
    uint32_t sequence = 0;
    std::vector<int> readers;
  };
  std::array<Published, kSlots> in_slots_;
  uint32_t published_ = 0;
  std::vector<uint32_t> seen_;  ///< what each rank has published, as far as steps were taken

  const Kernel* kernel_ = nullptr;
  std::unique_ptr<Device> host_reduces_;
};

Bridge::Bridge(Device& device, Team& team, const Islands& islands, Communicator* own)
    : device_(device),
      team_(team),
      island_(own),
      firsts_(islands.firsts),
      rank_(team.rank()),
      size_(team.size()),
      hosts_(static_cast<size_t>(team.size())),
      blocks_({&device}, team),
      peers_(static_cast<size_t>(team.size())),
      seen_(static_cast<size_t>(team.size())) {
  bool rising = std::ranges::adjacent_find(firsts_, std::greater_equal<>()) == firsts_.end();
  if (firsts_.size() < 2 || firsts_.front() != 0 || firsts_.back() >= size_ || !rising) {
    throw Error("islands are ranks in a row, two islands at least, and every rank is in one");
  }
  mine_ = island_of(rank_);
  index_ = rank_ - first_of(mine_);
  if ((island_ == nullptr) != (ranks_of(mine_) == 1)) {
    throw Error("an island of several ranks needs its library, one of one rank has none");
  }
  device_.activate();
  choose_way(islands.through_host);
  open_blocks();
  prove_streams();
  try {
    kernel_ = &device_.kernel("cclmark_reduce");
  } catch (const MissingError&) {
    host_reduces_ = open_host_device(0);
    kernel_ = &host_reduces_->kernel("cclmark_reduce");
  }
  if (on_streams_) {
    out_ = device_.create_stream();
    in_ = device_.create_stream();
    event_ = device_.create_event();
    for (void*& event : reduced_) event = device_.create_event();
  }
  team_.barrier();
}

Bridge::~Bridge() {
  for (void* stream : {out_, in_}) {
    if (on_streams_ && stream != nullptr) device_.destroy_stream(stream);
  }
  if (event_ != nullptr) device_.destroy_event(event_);
  for (void* event : reduced_) {
    if (event != nullptr) device_.destroy_event(event);
  }
  for (size_t i = 0; i < hosts_.size(); ++i) {
    HostBlock& block = hosts_[i];
    if (block.pinned) device_.unpin(block.base);
    if (block.base != nullptr) munmap(block.base, block.bytes);
  }
}

/// Peer copies, where every device reaches those of all other islands and may open their memory.
void Bridge::choose_way(bool through_host) {
  const DeviceInfo& device = device_.info();
  std::vector<double> known = team_.gather(
      std::array<double, 2>{number_of(device.runtime), static_cast<double>(device.index)});
  bool possible = !through_host;
  for (int peer = 0; peer < size_ && possible; ++peer) {
    if (island_of(peer) == mine_) continue;
    auto at = static_cast<size_t>(peer) * 2;
    possible = known[at] == number_of(device.runtime) &&
               find_runtime(device.runtime)->reaches(device.index, static_cast<int>(known[at + 1]));
  }
  auto everybody = [&](bool agrees) {
    std::vector<double> all = team_.gather(std::array<double, 1>{agrees ? 1.0 : 0.0});
    return std::ranges::count(all, 0.0) == 0;
  };
  if (everybody(possible)) {
    bool opened = true;
    try {
      blocks_.reserve(kSlots * kDirectSlotBytes);
    } catch (const UnsupportedError&) {
      opened = false;
    }
    for (int peer = 0; peer < size_ && opened; ++peer) {
      if (peer != rank_ && island_of(peer) == mine_) continue;
      try {
        peers_[static_cast<size_t>(peer)] = blocks_.at(rank_, peer);
      } catch (const UnsupportedError&) {
        opened = false;
      }
    }
    direct_ = everybody(opened);
  }
  slot_bytes_ = direct_ ? kDirectSlotBytes : kHostSlotBytes;
  if (direct_) {
    slots_ = peers_[static_cast<size_t>(rank_)];
  } else {
    own_slots_ = Buffer(device_, kSlots * slot_bytes_);
    slots_ = own_slots_.data();
    landings_ = Buffer(device_, kSlots * slot_bytes_ * (firsts_.size() - 1));
  }
}

/// Maps the flags, and without peer copies the slots, of this rank and of those in other islands.
void Bridge::open_blocks() {
  size_t bytes = flag_bytes() + (direct_ ? 0 : kSlots * slot_bytes_);
  // Released when everybody has it mapped; what is mapped stays.
  std::unique_ptr<Device> memory = open_host_device(0);
  Buffer own(*memory, bytes);
  HostAllocation allocation = find_host_allocation(own.data());
  std::vector<double> all =
      team_.gather(std::array<double, 2>{double(getpid()), double(allocation.fd)});
  std::string refused;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && island_of(peer) == mine_) continue;
    auto at = static_cast<size_t>(peer) * 2;
    HostBlock& block = host(peer);
    block.base = static_cast<std::byte*>(
        map_host_memory(static_cast<pid_t>(all[at]), static_cast<int>(all[at + 1]), bytes));
    block.bytes = bytes;
    block.for_device = block.base;
    if (device_.synchronous()) continue;
    try {
      block.for_device = static_cast<std::byte*>(device_.pin(block.base, bytes));
      block.pinned = true;
    } catch (const UnsupportedError&) {
      // Copies work with memory that is not pinned too; flags are the host's then.
    }
  }
  team_.barrier();
}

/// Whether streams wait for flags and set them, tried on a flag that nobody else uses.
void Bridge::prove_streams() {
  if (device_.synchronous() || !host(rank_).pinned) return;
  Stream stream(device_);
  Event event(device_);
  auto flag = reinterpret_cast<uint32_t*>(host(rank_).for_device + taken_flag(rank_));
  try {
    device_.write_flag(flag, 1, stream.get());
    device_.wait_for_flag(flag, 1, stream.get());
    device_.record(event.get(), stream.get());
    device_.wait_for_event(event.get(), stream.get());
  } catch (const UnsupportedError&) {
    return;
  }
  while (!device_.idle(stream.get())) team_.check(-1);
  on_streams_ = true;
}

void Bridge::await(int owner, size_t flag, uint32_t value, void* stream) {
  HostBlock& block = host(owner);
  if (on_streams_) {
    device_.wait_for_flag(reinterpret_cast<uint32_t*>(block.for_device + flag), value, stream);
    return;
  }
  std::atomic_ref<uint32_t> word(*reinterpret_cast<uint32_t*>(block.base + flag));
  auto arrived = [&] {
    return static_cast<int32_t>(word.load(std::memory_order_acquire) - value) >= 0;
  };
  Patience patience(team_.oversubscribed());
  while (!arrived()) {
    if (patience.pause()) team_.check(owner);
  }
}

void Bridge::tell(int owner, size_t flag, uint32_t value, void* stream) {
  HostBlock& block = host(owner);
  if (on_streams_) {
    device_.write_flag(reinterpret_cast<uint32_t*>(block.for_device + flag), value, stream);
    return;
  }
  while (!device_.idle(stream)) team_.check(-1);
  std::atomic_ref<uint32_t> word(*reinterpret_cast<uint32_t*>(block.base + flag));
  word.store(value, std::memory_order_release);
}

/// Holds one stream up until the other has done what it has been given so far.
void Bridge::join(void* waiting, void* awaited) {
  if (waiting == awaited) return;
  device_.record(event_, awaited);
  device_.wait_for_event(event_, waiting);
}

void Bridge::publish(const Step& step, const std::byte* send, std::byte* receive) {
  if (!step.publishes) {
    if (step.work) step.work(send, receive, nullptr);
    return;
  }
  uint32_t sequence = ++published_;
  Published& before = in_slots_[sequence % kSlots];
  void* stream = step.work || step.bytes == 0 ? main_ : out_;
  for (int reader : before.readers) {
    await(rank_, taken_flag(reader), before.sequence, stream);
  }
  before = {sequence, step.readers};
  std::byte* slot = slots_ + place(sequence);
  std::byte* shared = direct_ ? slot : host(rank_).base + flag_bytes() + place(sequence);
  if (step.work) {
    step.work(send, receive, slot);
    if (!direct_ && step.bytes > 0) {
      stream = out_;
      join(out_, main_);
      device_.copy_async(shared, slot, step.bytes, out_);
    }
  } else if (step.bytes > 0) {
    device_.copy_async(shared, send + step.from, step.bytes, stream);
  }
  tell(rank_, ready_flag(), sequence, stream);
}

void Bridge::take(const Step& step, std::byte* receive) {
  for (int publisher : step.publishers) ++seen_[static_cast<size_t>(publisher)];
  bool kernels_take = step.reduces && direct_;
  bool lands = step.reduces && !direct_;
  void* stream = takes_apart(step) ? in_ : main_;
  size_t ring = landed_ % kSlots, landed = 0;
  std::byte* landing = landings_.data() + ring * slot_bytes_ * (firsts_.size() - 1);
  if (lands && !step.takes.empty() && on_streams_ && landed_ >= kSlots) {
    device_.wait_for_event(reduced_[ring], in_);
  }
  auto reduce_from = [&](const Take& piece, const std::byte* other) {
    std::byte* out = receive + piece.to;
    const std::byte* own =
        piece.to_own_slot ? slots_ + place(seen_[static_cast<size_t>(rank_)]) + piece.own_at : out;
    reduce(out, own, other, piece);
  };
  for (size_t i = 0; i < step.takes.size(); ++i) {
    const Take& piece = step.takes[i];
    bool first = i == 0 || step.takes[i - 1].source != piece.source;
    bool last = i + 1 == step.takes.size() || step.takes[i + 1].source != piece.source;
    uint32_t sequence = seen_[static_cast<size_t>(piece.source)];
    if (first) await(piece.source, ready_flag(), sequence, stream);
    if (piece.bytes == 0) continue;
    const std::byte* from = (direct_ ? peers_[static_cast<size_t>(piece.source)]
                                     : host(piece.source).base + flag_bytes()) +
                            place(sequence) + piece.at;
    if (kernels_take) {
      reduce_from(piece, from);
    } else if (lands) {
      device_.copy_async(landing + landed, from, piece.bytes, stream);
      landed += piece.bytes;
    } else {
      device_.copy_async(receive + piece.to, from, piece.bytes, stream);
    }
    if (last) tell(piece.source, taken_flag(rank_), sequence, stream);
  }
  if (lands && landed > 0) {
    join(main_, in_);
    for (const Take& piece : step.takes) {
      reduce_from(piece, landing);
      landing += piece.bytes;
    }
    if (on_streams_) device_.record(reduced_[ring], main_);
    ++landed_;
  }
  if (step.finish) {
    if (!step.reduces) join(main_, in_);
    step.finish(receive);
  }
}

void Bridge::reduce(std::byte* out, const std::byte* a, const std::byte* b, const Take& piece) {
  size_t width = size_bytes(dtype_);
  ReduceArguments arguments{};
  arguments.count = piece.bytes / width;
  arguments.dtype = static_cast<int>(dtype_);
  arguments.reduction = reduction_ == Reduction::avg ? 0 : static_cast<int>(reduction_);
  arguments.divisor = piece.last ? divisor_ : 1;
  auto bytes_of = [](const std::byte* memory) {
    return reinterpret_cast<const unsigned char*>(memory);
  };
  if (host_reduces_ == nullptr) {
    arguments.out = reinterpret_cast<unsigned char*>(out);
    arguments.a = bytes_of(a);
    arguments.b = bytes_of(b);
    device_.launch(*kernel_, &arguments, (piece.bytes + kVector - 1) / kVector, main_);
    return;
  }
  while (!device_.idle(main_)) team_.check(-1);
  std::vector<std::byte> one(piece.bytes), other(piece.bytes);
  device_.copy_to_host(one.data(), a, piece.bytes);
  device_.copy_to_host(other.data(), b, piece.bytes);
  arguments.out = reinterpret_cast<unsigned char*>(one.data());
  arguments.a = bytes_of(one.data());
  arguments.b = bytes_of(other.data());
  host_reduces_->launch(*kernel_, &arguments, 0, nullptr);
  device_.copy_from_host(out, one.data(), piece.bytes);
}

void Bridge::run(const std::vector<Step>& steps, const std::byte* send, std::byte* receive) {
  bool out = std::ranges::any_of(steps, [&](const Step& step) { return sends_apart(step); });
  bool in = std::ranges::any_of(steps, [&](const Step& step) { return takes_apart(step); });
  // What was there before has to be done before others read it, or it is written over.
  if (out) join(out_, main_);
  if (in) join(in_, main_);
  for (size_t i = 0; i < steps.size() + kAhead; ++i) {
    if (i < steps.size()) publish(steps[i], send, receive);
    if (i >= kAhead) take(steps[i - kAhead], receive);
  }
  if (out) join(main_, out_);
  if (in) join(main_, in_);
}

/// An operation of all ranks, as the steps of this one.
class Planner {
 public:
  Planner(Bridge& bridge, const Operation& op, void* stream)
      : bridge_(bridge),
        op_(op),
        stream_(stream),
        width_(size_bytes(op.dtype)),
        room_(bridge.slot_bytes_ / size_bytes(op.dtype)),
        rank_(bridge.rank_),
        ranks_(bridge.size_),
        islands_(static_cast<int>(bridge.firsts_.size())),
        mine_(bridge.mine_),
        index_(bridge.index_),
        alone_(bridge.island_ == nullptr) {
    for (int island = 0; island < islands_; ++island) {
      evenly_ = std::lcm(evenly_, static_cast<size_t>(bridge.ranks_of(island)));
      fewest_ = std::min(fewest_, static_cast<size_t>(bridge.ranks_of(island)));
    }
  }

  std::vector<Step> plan() {
    switch (op_.collective) {
      case Collective::all_reduce:
        plan_all_reduce();
        break;
      case Collective::all_gather:
        plan_all_gather();
        break;
      case Collective::reduce_scatter:
        plan_reduce_scatter();
        break;
      case Collective::broadcast:
        plan_broadcast();
        break;
      case Collective::reduce:
        plan_reduce();
        break;
      case Collective::alltoall:
      case Collective::alltoallv:
        plan_alltoall();
        break;
      case Collective::gather:
        plan_gather();
        break;
      case Collective::scatter:
        plan_scatter();
        break;
      case Collective::sendrecv:
        plan_ring_shift();
        break;
      case Collective::barrier:
        plan_barrier();
        break;
      case Collective::ping_pong:
        throw UnsupportedError("a ping-pong between islands is not measured: use sendrecv");
    }
    return std::move(steps_);
  }

 private:
  using CallPointer = std::shared_ptr<Call>;

  int ranks_of(int island) const { return bridge_.ranks_of(island); }
  int first_of(int island) const { return bridge_.first_of(island); }
  int island_of(int rank) const { return bridge_.island_of(rank); }
  int index_of(int rank) const { return rank - first_of(island_of(rank)); }
  bool abroad(int rank) const { return island_of(rank) != mine_; }

  /// An operation of this rank's island.
  CallPointer of_island(Collective collective, size_t count, int root = 0,
                        std::vector<size_t> matrix = {}) {
    auto key = std::make_tuple(collective, count, root);
    CallPointer& known = calls_[key];
    if (known == nullptr) {
      Operation op = op_;
      op.collective = collective;
      op.count = count;
      op.root = root;
      op.matrix = std::move(matrix);
      if (op.reduction == Reduction::avg) op.reduction = Reduction::sum;  // divided at the end
      known = bridge_.island_->bind(op, stream_);
    }
    return known;
  }

  /// A copy within the device, unless it would be onto itself.
  void copy(std::byte* to, const std::byte* from, size_t bytes) const {
    if (to != from && bytes > 0) bridge_.device_.copy_async(to, from, bytes, stream_);
  }

  Step& add() { return steps_.emplace_back(); }
  void everybody_publishes(Step& step) const {
    for (int rank = 0; rank < ranks_; ++rank) step.publishers.push_back(rank);
  }
  template <typename Body>
  void others(Body body) const {
    for (int island = 0; island < islands_; ++island) {
      if (island != mine_) body(island);
    }
  }
  bool is_last(int island) const {
    return island == (mine_ == islands_ - 1 ? islands_ - 2 : islands_ - 1);
  }
  bool is_first(int island) const { return island == (mine_ == 0 ? 1 : 0); }

  /// Stretches of `count` elements, of at most `most` each.
  template <typename Body>
  static void in_stretches(size_t count, size_t most, Body body) {
    for (size_t at = 0; at < count; at += most) body(at, std::min(most, count - at));
  }
  /// So that stretches begin at whole vectors.
  size_t whole_vectors(size_t elements) const {
    size_t per_vector = kVector / width_;
    return std::max(elements / per_vector * per_vector, per_vector);
  }

  void plan_all_reduce() {
    size_t shared = op_.count * width_ <= kWholeBytes ? 0 : op_.count / evenly_ * evenly_;
    size_t unit = evenly_ * kVector / width_;
    size_t most = room_ * fewest_ / unit * unit;
    in_stretches(shared, most, [&](size_t at, size_t count) { add_shared(at, count); });
    in_stretches(op_.count - shared, whole_vectors(room_),
                 [&](size_t at, size_t count) { add_whole(shared + at, count); });
  }

  /// Every rank reduces the part of its island, adds the same part of the others, and the island
  /// gathers the parts.
  void add_shared(size_t at, size_t count) {
    Step& step = add();
    size_t n = static_cast<size_t>(ranks_of(mine_)), part = count / n;
    size_t first = static_cast<size_t>(index_) * part, offset = at * width_;
    size_t bytes = count * width_;
    if (alone_) {
      step.work = [this, offset, bytes](const std::byte* s, std::byte*, std::byte* slot) {
        copy(slot, s + offset, bytes);
      };
    } else {
      step.work = [call = of_island(Collective::reduce_scatter, part), offset](
                      const std::byte* s, std::byte*, std::byte* slot) {
        call->enqueue(s + offset, slot);
      };
      step.finish = [call = of_island(Collective::all_gather, part), offset,
                     own = offset + first * width_](std::byte* r) {
        call->enqueue(r + own, r + offset);
      };
    }
    step.publishes = step.reduces = true;
    step.bytes = part * width_;
    everybody_publishes(step);
    others([&](int island) {
      size_t theirs = count / static_cast<size_t>(ranks_of(island));
      for (int i = 0; i < ranks_of(island); ++i) {
        size_t begin = std::max(first, static_cast<size_t>(i) * theirs);
        size_t end = std::min(first + part, static_cast<size_t>(i + 1) * theirs);
        if (begin >= end) continue;
        int peer = first_of(island) + i;
        step.readers.push_back(peer);
        step.takes.push_back({peer, (begin - static_cast<size_t>(i) * theirs) * width_,
                              (end - begin) * width_, offset + begin * width_, is_first(island),
                              (begin - first) * width_, is_last(island)});
      }
    });
  }

  /// Every island reduces all of it, and every rank adds what one rank of each other island has.
  void add_whole(size_t at, size_t count) {
    Step& step = add();
    size_t offset = at * width_, bytes = count * width_;
    if (alone_) {
      step.work = [this, offset, bytes](const std::byte* s, std::byte*, std::byte* slot) {
        copy(slot, s + offset, bytes);
      };
    } else {
      step.work = [call = of_island(Collective::all_reduce, count), offset](
                      const std::byte* s, std::byte*, std::byte* slot) {
        call->enqueue(s + offset, slot);
      };
    }
    step.publishes = step.reduces = true;
    step.bytes = bytes;
    everybody_publishes(step);
    others([&](int island) {
      for (int i = 0; i < ranks_of(island); ++i) {
        if (i % ranks_of(mine_) == index_) step.readers.push_back(first_of(island) + i);
      }
      step.takes.push_back({first_of(island) + index_ % ranks_of(island), 0, bytes, offset,
                            is_first(island), 0, is_last(island)});
    });
  }

  /// Something that only the island does, or that a rank which is alone there copies.
  void add_inner(Step::Action action) { add().work = std::move(action); }

  void plan_all_gather() {
    size_t bytes = op_.count * width_;
    size_t base = static_cast<size_t>(first_of(mine_)) * bytes;
    size_t own = static_cast<size_t>(rank_) * bytes;
    if (alone_) {
      add_inner(
          [=, this](const std::byte* s, std::byte* r, std::byte*) { copy(r + own, s, bytes); });
    } else {
      add_inner([=, call = of_island(Collective::all_gather, op_.count)](
                    const std::byte* s, std::byte* r, std::byte*) { call->enqueue(s, r + base); });
    }
    in_stretches(op_.count, whole_vectors(room_), [&](size_t at, size_t count) {
      Step& step = add();
      step.publishes = true;
      step.from = at * width_;
      step.bytes = count * width_;
      everybody_publishes(step);
      // Not all from the same rank at once.
      for (int turn = 1; turn < ranks_; ++turn) {
        int peer = (rank_ + turn) % ranks_;
        if (!abroad(peer)) continue;
        step.readers.push_back(peer);
        step.takes.push_back(
            {peer, 0, step.bytes, static_cast<size_t>(peer) * bytes + at * width_});
      }
    });
  }

  /// Ranks of other islands that `rank` reduces for, in order.
  std::vector<int> served_by(int rank) const {
    std::vector<int> served;
    for (int to = 0; to < ranks_; ++to) {
      int island = island_of(rank);
      if (island_of(to) == island) continue;
      if (index_of(to) % ranks_of(island) == index_of(rank)) served.push_back(to);
    }
    return served;
  }

  void plan_reduce_scatter() {
    size_t bytes = op_.count * width_;
    size_t base = static_cast<size_t>(first_of(mine_)) * bytes;
    if (alone_) {
      add_inner(
          [=, this](const std::byte* s, std::byte* r, std::byte*) { copy(r, s + base, bytes); });
    } else {
      add_inner([=, call = of_island(Collective::reduce_scatter, op_.count)](
                    const std::byte* s, std::byte* r, std::byte*) { call->enqueue(s + base, r); });
    }
    size_t most = 1;
    for (int rank = 0; rank < ranks_; ++rank) most = std::max(most, served_by(rank).size());
    size_t stretch = whole_vectors(room_ / most);
    std::vector<int> served = served_by(rank_);
    auto place_in = [](const std::vector<int>& list, int rank) {
      return static_cast<size_t>(std::ranges::find(list, rank) - list.begin());
    };
    in_stretches(op_.count, stretch, [&](size_t at, size_t count) {
      Step& step = add();
      step.publishes = !served.empty();
      step.reduces = true;
      step.readers = served;
      step.bytes = served.empty() ? 0 : ((served.size() - 1) * stretch + count) * width_;
      for (int rank = 0; rank < ranks_; ++rank) {
        if (!served_by(rank).empty()) step.publishers.push_back(rank);
      }
      add_reductions(step, served, at, count, stretch);
      others([&](int island) {
        int source = first_of(island) + index_ % ranks_of(island);
        size_t slot = place_in(served_by(source), rank_) * stretch * width_;
        step.takes.push_back(
            {source, slot, count * width_, at * width_, false, 0, is_last(island)});
      });
    });
  }

  /// Reduces within the island what belongs to ranks of others, each to the rank that serves it.
  void add_reductions(Step& step, const std::vector<int>& served, size_t at, size_t count,
                      size_t stretch) {
    struct Part {
      CallPointer call;
      size_t from, to;
    };
    std::vector<Part> parts;
    for (int to = 0; to < ranks_; ++to) {
      if (!abroad(to)) continue;
      size_t from = (static_cast<size_t>(to) * op_.count + at) * width_;
      int root = index_of(to) % ranks_of(mine_);
      auto place = static_cast<size_t>(std::ranges::find(served, to) - served.begin());
      size_t slot = root == index_ ? place * stretch * width_ : 0;
      parts.push_back({alone_ ? nullptr : of_island(Collective::reduce, count, root), from, slot});
    }
    step.work = [this, parts, bytes = count * width_](const std::byte* s, std::byte*,
                                                      std::byte* slot) {
      std::byte* into =
          slot != nullptr ? slot : bridge_.slots_;  // of no use where nobody is served
      if (alone_) {
        for (const Part& part : parts) copy(into + part.to, s + part.from, bytes);
        return;
      }
      bridge_.island_->begin_group();
      for (const Part& part : parts) part.call->enqueue(s + part.from, into + part.to);
      bridge_.island_->end_group();
    };
  }

  void plan_broadcast() {
    int home = island_of(op_.root);
    size_t bytes = op_.count * width_;
    if (mine_ == home && alone_) {
      add_inner([=, this](const std::byte* s, std::byte* r, std::byte*) { copy(r, s, bytes); });
    } else if (mine_ == home) {
      add_inner([call = of_island(Collective::broadcast, op_.count, index_of(op_.root))](
                    const std::byte* s, std::byte* r, std::byte*) { call->enqueue(s, r); });
    } else {
      add();
    }
    size_t shared = bytes <= kWholeBytes ? 0 : op_.count / evenly_ * evenly_;
    size_t unit = evenly_ * kVector / width_;
    in_stretches(shared, room_ / unit * unit,
                 [&](size_t at, size_t count) { add_root_stretch(at, count, true); });
    in_stretches(op_.count - shared, whole_vectors(room_),
                 [&](size_t at, size_t count) { add_root_stretch(shared + at, count, false); });
  }

  /// The root publishes; elsewhere each rank takes a part and the island gathers them, or each
  /// takes everything.
  void add_root_stretch(size_t at, size_t count, bool in_parts) {
    Step& step = add();
    step.publishers = {op_.root};
    step.from = at * width_;
    step.bytes = count * width_;
    if (rank_ == op_.root) {
      step.publishes = true;
      for (int peer = 0; peer < ranks_; ++peer) {
        if (abroad(peer)) step.readers.push_back(peer);
      }
    }
    if (mine_ == island_of(op_.root)) return;
    size_t part = in_parts ? count / static_cast<size_t>(ranks_of(mine_)) : count;
    size_t first = in_parts ? static_cast<size_t>(index_) * part * width_ : 0;
    step.takes.push_back({op_.root, first, part * width_, step.from + first});
    if (!in_parts || alone_) return;
    step.finish = [call = of_island(Collective::all_gather, part), from = step.from,
                   first](std::byte* r) { call->enqueue(r + from + first, r + from); };
  }

  void plan_reduce() {
    int home = island_of(op_.root), root = index_of(op_.root);
    auto leader_of = [&](int island) { return first_of(island) + root % ranks_of(island); };
    in_stretches(op_.count, whole_vectors(room_), [&](size_t at, size_t count) {
      Step& step = add();
      size_t offset = at * width_, bytes = count * width_;
      bool at_home = mine_ == home;
      int leader = at_home ? op_.root : leader_of(mine_);
      CallPointer call = alone_ ? nullptr : of_island(Collective::reduce, count, index_of(leader));
      step.work = [=, this](const std::byte* s, std::byte* r, std::byte* slot) {
        std::byte* into = at_home ? r + offset : slot != nullptr ? slot : bridge_.slots_;
        if (call != nullptr) {
          call->enqueue(s + offset, into);
        } else {
          copy(into, s + offset, bytes);
        }
      };
      step.reduces = true;
      step.bytes = bytes;
      step.publishes = !at_home && rank_ == leader;
      if (step.publishes) step.readers = {op_.root};
      for (int island = 0; island < islands_; ++island) {
        if (island == home) continue;
        step.publishers.push_back(leader_of(island));
        if (rank_ != op_.root) continue;
        step.takes.push_back({leader_of(island), 0, bytes, offset, false, 0, is_last(island)});
      }
    });
  }

  void plan_alltoall() {
    bool uneven = op_.collective == Collective::alltoallv;
    auto part = [&](int from, int to) { return uneven ? op_.part(from, to, ranks_) : op_.count; };
    auto before = [&](int from, int to, bool sent) {
      size_t sum = 0;
      for (int i = 0; i < (sent ? to : from); ++i) sum += sent ? part(from, i) : part(i, to);
      return sum * width_;
    };
    int first = first_of(mine_), n = ranks_of(mine_);
    size_t out = before(rank_, first, true), in = before(first, rank_, false);
    if (alone_) {
      add_inner(
          [=, this, bytes = part(rank_, rank_) * width_](
              const std::byte* s, std::byte* r, std::byte*) { copy(r + in, s + out, bytes); });
    } else {
      std::vector<size_t> inner;
      for (int from = first; uneven && from < first + n; ++from) {
        for (int to = first; to < first + n; ++to) inner.push_back(part(from, to));
      }
      add_inner(
          [=, call = of_island(op_.collective, op_.count, 0, inner)](
              const std::byte* s, std::byte* r, std::byte*) { call->enqueue(s + out, r + in); });
    }
    for (int turn = 1; turn < ranks_; ++turn) {
      auto target = [&](int from) { return (from + turn) % ranks_; };
      size_t longest = 0;
      for (int from = 0; from < ranks_; ++from) {
        if (island_of(from) != island_of(target(from))) {
          longest = std::max(longest, part(from, target(from)));
        }
      }
      in_stretches(longest, whole_vectors(room_), [&](size_t at, size_t most) {
        Step& step = add();
        for (int from = 0; from < ranks_; ++from) {
          int to = target(from);
          if (island_of(from) == island_of(to) || part(from, to) <= at) continue;
          step.publishers.push_back(from);
          size_t bytes = std::min(most, part(from, to) - at) * width_;
          if (from == rank_) {
            step.publishes = true;
            step.readers = {to};
            step.from = before(from, to, true) + at * width_;
            step.bytes = bytes;
          } else if (to == rank_) {
            step.takes.push_back({from, 0, bytes, before(from, to, false) + at * width_});
          }
        }
      });
    }
  }

  void plan_gather() {
    int home = island_of(op_.root);
    size_t bytes = op_.count * width_;
    size_t base = static_cast<size_t>(first_of(mine_)) * bytes;
    if (mine_ == home && alone_) {
      add_inner(
          [=, this](const std::byte* s, std::byte* r, std::byte*) { copy(r + base, s, bytes); });
    } else if (mine_ == home) {
      add_inner([=, call = of_island(Collective::gather, op_.count, index_of(op_.root))](
                    const std::byte* s, std::byte* r, std::byte*) { call->enqueue(s, r + base); });
    } else {
      add();
    }
    in_stretches(op_.count, whole_vectors(room_), [&](size_t at, size_t count) {
      Step& step = add();
      step.from = at * width_;
      step.bytes = count * width_;
      for (int peer = 0; peer < ranks_; ++peer) {
        if (island_of(peer) == home) continue;
        step.publishers.push_back(peer);
        if (rank_ != op_.root) continue;
        step.takes.push_back({peer, 0, step.bytes, static_cast<size_t>(peer) * bytes + step.from});
      }
      step.publishes = mine_ != home;
      if (step.publishes) step.readers = {op_.root};
    });
  }

  void plan_scatter() {
    int home = island_of(op_.root);
    size_t bytes = op_.count * width_;
    size_t base = static_cast<size_t>(first_of(mine_)) * bytes;
    if (mine_ == home && alone_) {
      add_inner(
          [=, this](const std::byte* s, std::byte* r, std::byte*) { copy(r, s + base, bytes); });
    } else if (mine_ == home) {
      add_inner([=, call = of_island(Collective::scatter, op_.count, index_of(op_.root))](
                    const std::byte* s, std::byte* r, std::byte*) { call->enqueue(s + base, r); });
    } else {
      add();
    }
    for (int to = 0; to < ranks_; ++to) {
      if (island_of(to) == home) continue;
      in_stretches(op_.count, whole_vectors(room_), [&](size_t at, size_t count) {
        Step& step = add();
        step.publishers = {op_.root};
        step.publishes = rank_ == op_.root;
        step.readers = {to};
        step.from = static_cast<size_t>(to) * bytes + at * width_;
        step.bytes = count * width_;
        if (rank_ == to) step.takes.push_back({op_.root, 0, step.bytes, at * width_});
      });
    }
  }

  void plan_ring_shift() {
    int n = ranks_of(mine_);
    if (!alone_) {
      std::vector<size_t> chain(static_cast<size_t>(n) * static_cast<size_t>(n), 0);
      for (int i = 0; i + 1 < n; ++i) chain[static_cast<size_t>(i * n + i + 1)] = op_.count;
      add_inner([call = of_island(Collective::alltoallv, op_.count, 0, chain)](
                    const std::byte* s, std::byte* r, std::byte*) { call->enqueue(s, r); });
    } else {
      add();
    }
    in_stretches(op_.count, whole_vectors(room_), [&](size_t at, size_t count) {
      Step& step = add();
      step.from = at * width_;
      step.bytes = count * width_;
      for (int from = 0; from < ranks_; ++from) {
        int to = (from + 1) % ranks_;
        if (island_of(from) == island_of(to)) continue;
        step.publishers.push_back(from);
        if (from == rank_) {
          step.publishes = true;
          step.readers = {to};
        } else if (to == rank_) {
          step.takes.push_back({from, 0, step.bytes, step.from});
        }
      }
    });
  }

  void plan_barrier() {
    if (alone_) {
      add();
    } else {
      add_inner([call = of_island(Collective::barrier, 0)](const std::byte* s, std::byte* r,
                                                           std::byte*) { call->enqueue(s, r); });
    }
    Step& step = add();
    step.work = [](const std::byte*, std::byte*, std::byte*) {};  // after what the island did
    step.publishes = true;
    step.reduces = true;  // so is what is waited for
    everybody_publishes(step);
    for (int peer = 0; peer < ranks_; ++peer) {
      if (abroad(peer)) step.takes.push_back({peer, 0, 0, 0});
    }
  }

  Bridge& bridge_;
  const Operation op_;
  void* stream_;
  size_t width_;
  size_t room_;  ///< elements of a slot
  int rank_, ranks_, islands_, mine_, index_;
  bool alone_;
  size_t evenly_ = 1;  ///< what every island can divide by its ranks
  size_t fewest_ = SIZE_MAX;
  std::map<std::tuple<Collective, size_t, int>, CallPointer> calls_;
  std::vector<Step> steps_;
};

class BridgeCall final : public Call {
 public:
  BridgeCall(Bridge& bridge, const Operation& op, void* stream)
      : bridge_(bridge),
        op_(op),
        stream_(stream),
        planner_(bridge, op, stream),
        steps_(planner_.plan()) {}

  void enqueue(const void* send, void* receive) override {
    bridge_.main_ = stream_;
    if (!bridge_.on_streams_) bridge_.out_ = bridge_.in_ = stream_;
    bridge_.dtype_ = op_.dtype;
    bridge_.reduction_ = op_.reduction;
    bool averages = op_.reduction == Reduction::avg;
    bridge_.divisor_ = averages ? static_cast<unsigned>(bridge_.size_) : 1;
    bridge_.run(steps_, static_cast<const std::byte*>(send), static_cast<std::byte*>(receive));
  }

 private:
  Bridge& bridge_;
  Operation op_;
  void* stream_;
  Planner planner_;  // the steps refer to it
  std::vector<Step> steps_;
};

std::unique_ptr<Call> Bridge::bind(const Operation& operation, void* stream) {
  return std::make_unique<BridgeCall>(*this, operation, stream);
}

}  // namespace

std::unique_ptr<Communicator> join_islands(Device& device, Team& team, const Islands& islands,
                                           Communicator* own) {
  return std::make_unique<Bridge>(device, team, islands, own);
}

}  // namespace cclmark
