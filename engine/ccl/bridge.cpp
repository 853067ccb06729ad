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
// list of steps (bridge_plan.hpp), in each of which a rank publishes once at most. So a flag per
// rank that counts what it has published, and one per slot and reader that says what was taken out
// of it last, are all that is ever waited for. They are words in shared host memory that the
// devices' streams wait for and write themselves: the host only enqueues. Where streams cannot do
// that (the host's own, and runtimes without such calls), the host waits and writes instead, inside
// the call.
//
// Ranks of other hosts are waited for and read in the same way: what they publish is carried into
// mirrors of their slots (remote_slots.hpp).

#include "ccl/bridge.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "ccl/bridge_plan.hpp"
#include "ccl/bridge_steps.hpp"
#include "ccl/remote_slots.hpp"
#include "ccl/slots.hpp"
#include "core/size_settings.hpp"
#include "core/waiting.hpp"
#include "device/host.hpp"
#include "device/peer_blocks.hpp"

namespace cclmark {
namespace {

// For the kernel's argument structure; the kernel itself is compiled elsewhere.
#include "kernels/dialect.cu"
#include "kernels/reduce.cu"

/// Steps published ahead of the one that is taken, fewer than the slots. Between a device and its
/// host more are in flight: on four H200 the third gains 8 %.
constexpr size_t kAhead = 2;
constexpr size_t kAheadThroughHost = 3;
static_assert(kAheadThroughHost < kSlots);
/// Streams that take in turns, so that what flags cost on one is hidden behind copies on the other.
constexpr size_t kTakers = 2;
/// A library's operations within an island gain from slots that are larger than a step has to be
/// (on four H200, 9 % at 4 GiB), so there is room for it where there are enough steps even so.
constexpr size_t kEnoughSteps = 8;
/// Host memory that is written and read again soon stays in the processors' caches, which give more
/// than memory does where several devices use it at once: slots of up to four ranks together have
/// this size. On H200, slots a third larger cost 6 % with four ranks and with two, and below 3 MiB
/// what every step costs besides weighs more.
constexpr size_t kCachedBytes = size_t{48} << 20;
constexpr size_t kLeastCachedSlotBytes = size_t{3} << 20;
constexpr size_t kMostHostSlotBytes = size_t{6} << 20;
constexpr size_t kLeastHostSlotBytes = size_t{256} << 10;
/// Pinned for the slots of ranks on other hosts, unless a slot becomes smaller than the minimum.
constexpr size_t kMirroredBytes = size_t{512} << 20;
constexpr size_t kPageBytes = 4096;

constexpr size_t kAnyBytes = size_t{1} << 40;
/// The value of a setting whose default depends on the group. It cannot be set.
constexpr size_t kByGroup = kAnyBytes + 1;
constexpr size_t kLeastSlotBytes = size_t{64} << 10;
constexpr size_t kMostSlotBytes = size_t{256} << 20;

/// What a user can set, in the order of BridgeSizes; the same values on all ranks.
/// src/cclmark/libraries/ bridge.toml describes them for users.
constexpr SizeSetting kBridgeSettings[] = {
    // By default by the links and the islands: see Bridge::usual_whole_bytes.
    {"CCLMARK_BRIDGE_WHOLE_BYTES", 0, kAnyBytes, kByGroup},
    // In device memory. A link between devices is some seven times as fast as one to the host, so
    // that slots for peer copies are larger.
    {"CCLMARK_BRIDGE_DIRECT_SLOT_BYTES", kLeastSlotBytes, kMostSlotBytes, size_t{64} << 20,
     kPageBytes},
    // By default by the number of ranks: see Bridge::host_slot_bytes.
    {"CCLMARK_BRIDGE_HOST_SLOT_BYTES", kLeastSlotBytes, kMostSlotBytes, kByGroup, kPageBytes},
    // Large enough that the overhead of a step is small (on two H200, some 20 us), small enough
    // that outgoing and incoming data of a device overlap soon.
    {"CCLMARK_BRIDGE_STEP_BYTES", kLeastSlotBytes, kMostSlotBytes, size_t{32} << 20, kPageBytes},
    // From this size on, operations of several steps have separate streams for outgoing and
    // incoming data. Below it, streams would wait for each other longer than they could overlap.
    {"CCLMARK_BRIDGE_APART_BYTES", 0, kAnyBytes, size_t{4} << 20},
    // Up to this size a kernel copies, above it a copy engine.
    {"CCLMARK_BRIDGE_KERNEL_BYTES", 0, kAnyBytes, size_t{512} << 10},
};

struct BridgeSizes {
  size_t whole, direct_slot, host_slot, step, apart, kernel;

  /// A collective call. Raises UsageError.
  static BridgeSizes agreed(RankGroup& rank_group) {
    std::vector<size_t> values = agreed_sizes(kBridgeSettings, rank_group);
    return {values[0], values[1], values[2], values[3], values[4], values[5]};
  }
};

/// Memory for the data that a rank of another host publishes. Raises OutOfMemoryError.
std::byte* new_mirror(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw OutOfMemoryError("cannot allocate " + std::to_string(bytes) + " bytes of host memory");
  }
  return static_cast<std::byte*>(memory);
}

double number_of(std::string_view runtime) {
  uint32_t hash = 2166136261u;
  for (char letter : runtime) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619u;
  return hash;
}

/// Memory of this host that ranks map: flags, then slots.
struct HostBlock {
  HostBlock() = default;
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;
  ~HostBlock() {
    if (pinned_by != nullptr) pinned_by->unpin(base);
    if (base != nullptr) munmap(base, bytes);
  }

  std::byte* base = nullptr;
  std::byte* for_device = nullptr;  ///< the device's address
  size_t bytes = 0;
  Device* pinned_by = nullptr;
};

class Bridge final : public Communicator {
 public:
  Bridge(Device& device, RankGroup& rank_group, const Islands& islands, Communicator* own,
         HostExchange* host_exchange);

  std::unique_ptr<Call> bind(const Operation& operation, void* stream) override;

  std::string route(const Operation&) const override {
    return std::to_string(map_.islands()) + " islands, " +
           (direct_ ? "direct peer copies" : "through pinned host memory") +
           (remote_ != nullptr ? " and MPI between hosts" : "") +
           (host_waits_ ? ", the host waits" : "") +
           (reduced_on_host_ ? ", reduced on the host" : "");
  }

  std::vector<Connection> connections() const override {
    std::vector<Connection> found;
    for (int peer = 0; peer < map_.ranks(); ++peer) {
      if (peer != rank_) found.push_back({peer, transport_to(peer)});
    }
    return found;
  }

  std::string no_registration(Registration) const override {
    return "registered buffers have no effect between islands: use --register none";
  }

  bool blocking() const override {
    if (island_ != nullptr && island_->blocking()) return true;
    return !device_.synchronous() && (!on_streams_ || host_reduces_ != nullptr);
  }
  /// The flags count up with every call, and a graph would repeat the same numbers.
  std::string no_graphs() const override {
    return "calls of this library cannot be captured in a graph";
  }

  void check() override {
    if (island_ != nullptr) island_->check();
    if (remote_ != nullptr) remote_->check();
  }

  SlotTimes record_slots(const SlotTap& tap) override {
    tap_ = tap;
    if (island_ != nullptr) {
      island_->record_slots(
          SlotTap(tap.recorder(), map_.first_of(mine_), static_cast<uint16_t>(1 + mine_)));
    }
    return on_streams_ ? SlotTimes::enqueued : SlotTimes::executed;
  }

  std::vector<MemoryBlock> memory_blocks() const override;
  MemoryStatement memory_statement() const override {
    if (island_ == nullptr) {
      throw UnsupportedError("this rank is alone in its island and uses no library");
    }
    return island_->memory_statement();
  }

  void leave() override {
    if (remote_ != nullptr) {
      remote_->drain();
      rank_group_.barrier();
    }
    blocks_.leave();
  }

 private:
  friend class BridgeCall;

  void choose_way(bool through_host);
  size_t host_slot_bytes() const;
  size_t usual_whole_bytes() const;
  void open_blocks(HostExchange* host_exchange);
  void pin(HostBlock& block);
  void prove_streams();
  bool try_streams();

  std::string transport_to(int peer) const {
    if (!abroad(peer)) return "library of the island";
    if (!rank_group_.here(peer)) return "host memory and MPI";
    return direct_ ? "direct peer copies" : "host memory";
  }

  HostBlock& host(int rank) { return hosts_[static_cast<size_t>(rank)]; }
  SlotLayout layout() const { return {map_.ranks(), slot_bytes_}; }
  /// The part of a slot that the steps of an operation fill.
  size_t stretch_bytes(const Operation& op) const {
    size_t bytes = op.count * size_bytes(op.dtype);
    return std::min(slot_bytes_, std::max(sizes_.step, bytes / kEnoughSteps));
  }
  size_t place(uint32_t sequence) const { return layout().place(sequence); }
  /// The size of the pieces taken in one step, each beginning at a whole vector.
  size_t landing_bytes() const {
    return (slot_bytes_ + kPageBytes) * static_cast<size_t>(map_.islands() - 1);
  }
  bool abroad(int rank) const { return map_.island_of(rank) != mine_; }

  bool far(int rank) const { return remote_ != nullptr && remote_->far(rank); }

  void await(SlotAction cause, int peer, int owner, size_t flag, uint32_t value, void* stream);
  void tell(int owner, size_t flag, uint32_t value, void* stream);
  void wait_until_idle(void* stream);
  void join(void* waiting, void* awaited);

  /// An operation under way: it has a single stream if it is small, or if the host waits.
  struct Run {
    const Operation& op;
    const std::byte* send;
    std::byte* receive;
    void* main;
    void* out;
    std::array<void*, kTakers> in;
    bool apart;
  };
  void run(const std::vector<Step>& steps, Run now);
  void perform(const std::vector<InnerWork>& work, uint32_t sequence, size_t bytes, const Run& now,
               std::byte* slot);
  void enqueue_inner(const std::vector<InnerWork>& work, const Run& now, std::byte* slot);
  static void enqueue_part(Call& call, const void* from, void* to);
  void publish(const Step& step, size_t number, const Run& now);
  void take(const Step& step, size_t number, const Run& now);
  void reduce(const Take& piece, const std::byte* other, const Run& now, void* stream);
  void copy(std::byte* to, const std::byte* from, size_t bytes, void* stream);

  Device& device_;
  RankGroup& rank_group_;
  Communicator* island_;
  IslandMap map_;
  int rank_;
  int mine_;  ///< this rank's island
  BridgeSizes sizes_{};

  bool direct_ = false, linked_ = false;  ///< linked: by links of the devices' own, as NVLink
  bool on_streams_ = false;
  size_t slot_bytes_ = 0;
  std::vector<HostBlock> hosts_;
  PeerBlocks blocks_;
  Buffer own_slots_, landings_;  ///< unless they are in a block of their own
  std::byte* slots_ = nullptr;
  std::vector<std::byte*> peers_;        ///< direct only: the slots of all ranks
  std::unique_ptr<RemoteSlots> remote_;  ///< nullptr where all ranks are on this host

  // For streams that wait for flags themselves.
  std::vector<Stream> streams_;  ///< for outgoing, then for incoming data
  std::vector<Event> events_;    ///< one to join streams, then one for each step that may be ahead

  struct Published {
    uint32_t sequence = 0;
    std::vector<Reader> readers;  ///< its memory is kept from step to step
  };
  std::array<Published, kSlots> in_slots_;
  uint32_t published_ = 0;
  std::vector<uint32_t> seen_;  ///< each rank's publications up to the steps taken so far

  const Kernel* reduces_ = nullptr;
  const Kernel* copies_ = nullptr;  ///< nullptr where copies of the runtime's own will do
  std::unique_ptr<Device> host_reduces_;
  std::vector<std::byte> own_on_host_, other_on_host_;  ///< what it reduces, as large as was needed
  // True if it applies to any rank: all ranks wait for the slowest.
  bool host_waits_ = false, reduced_on_host_ = false;

  SlotTap tap_;
};

Bridge::Bridge(Device& device, RankGroup& rank_group, const Islands& islands, Communicator* own,
               HostExchange* host_exchange)
    : device_(device),
      rank_group_(rank_group),
      island_(own),
      map_(islands.firsts, rank_group.size()),
      rank_(rank_group.rank()),
      mine_(map_.island_of(rank_)),
      hosts_(static_cast<size_t>(rank_group.size())),
      blocks_({&device}, rank_group),
      peers_(static_cast<size_t>(rank_group.size())),
      seen_(static_cast<size_t>(rank_group.size())) {
  if ((island_ == nullptr) != (map_.ranks_of(mine_) == 1)) {
    throw Error("an island of several ranks requires a library, an island of one rank has none");
  }
  if (host_exchange == nullptr && !rank_group_.on_one_host()) {
    throw Error("islands on several hosts require a host exchange for the data between them");
  }
  // Arguments are checked before, so that no rank waits here for one that has refused them.
  sizes_ = BridgeSizes::agreed(rank_group_);
  device_.activate();
  choose_way(islands.through_host || !rank_group_.on_one_host());
  open_blocks(rank_group_.on_one_host() ? nullptr : host_exchange);
  prove_streams();
  try {
    reduces_ = &device_.kernel("cclmark_reduce");
    if (direct_ && !device_.synchronous()) copies_ = &device_.kernel("cclmark_take");
  } catch (const MissingError&) {
    host_reduces_ = open_host_device(0);
    reduces_ = &host_reduces_->kernel("cclmark_reduce");
  }
  bool waits = !on_streams_ && !device_.synchronous();
  std::vector<double> ways = rank_group_.gather(
      std::array<double, 2>{waits ? 1.0 : 0.0, host_reduces_ != nullptr ? 1.0 : 0.0});
  for (size_t i = 0; i < ways.size(); i += 2) {
    host_waits_ = host_waits_ || ways[i] > 0;
    reduced_on_host_ = reduced_on_host_ || ways[i + 1] > 0;
  }
  if (sizes_.whole == kByGroup) sizes_.whole = usual_whole_bytes();
  for (size_t i = 0; on_streams_ && i < 1 + kTakers; ++i) streams_.emplace_back(device_);
  for (size_t i = 0; on_streams_ && i < 1 + kSlots; ++i) events_.emplace_back(device_);
  rank_group_.barrier();
}

/// Selects peer copies if every device reaches those of all other islands and can open their
/// memory. Sets the size of slots, and allocates them.
void Bridge::choose_way(bool through_host) {
  const DeviceInfo& device = device_.info();
  std::vector<double> known = rank_group_.gather(
      std::array<double, 2>{number_of(device.runtime), static_cast<double>(device.index)});
  const Runtime& runtime = *find_runtime(device.runtime);
  bool possible = !through_host, linked = runtime.linked != nullptr;
  for (int peer = 0; peer < map_.ranks() && possible; ++peer) {
    if (!abroad(peer)) continue;
    auto at = static_cast<size_t>(peer) * 2;
    auto other = static_cast<int>(known[at + 1]);
    possible = known[at] == number_of(device.runtime) && runtime.reaches(device.index, other);
    linked = linked && possible && runtime.linked(device.index, other);
  }
  auto everybody = [&](bool agrees) {
    std::vector<double> all = rank_group_.gather(std::array<double, 1>{agrees ? 1.0 : 0.0});
    return std::ranges::count(all, 0.0) == 0;
  };
  bool host_memory = device_.synchronous();
  size_t direct_bytes = host_memory ? host_slot_bytes() : sizes_.direct_slot;
  if (everybody(possible)) {
    bool opened = true;
    try {
      blocks_.reserve(kSlots * direct_bytes);
    } catch (const UnsupportedError&) {
      opened = false;
    } catch (const OutOfMemoryError&) {
      opened = false;  // the host's memory has less of them
    }
    for (int peer = 0; peer < map_.ranks() && opened; ++peer) {
      if (peer != rank_ && !abroad(peer)) continue;
      try {
        peers_[static_cast<size_t>(peer)] = blocks_.at(rank_, peer);
      } catch (const UnsupportedError&) {
        opened = false;
      }
    }
    direct_ = everybody(opened);
    if (direct_) linked_ = everybody(linked);
    if (!direct_) blocks_.leave();
  }
  slot_bytes_ = direct_ ? direct_bytes : host_slot_bytes();
  if (direct_) {
    slots_ = peers_[static_cast<size_t>(rank_)];
  } else {
    landings_ = Buffer(device_, kTakers * landing_bytes());
    own_slots_ = Buffer(device_, kSlots * slot_bytes_);
    slots_ = own_slots_.data();
  }
}

size_t Bridge::host_slot_bytes() const {
  if (sizes_.host_slot != kByGroup) return sizes_.host_slot;
  auto share_of = [&](size_t bytes) {
    return bytes / (kSlots * static_cast<size_t>(map_.ranks()));
  };
  size_t cached = std::clamp(share_of(kCachedBytes) / kPageBytes * kPageBytes,
                             kLeastCachedSlotBytes, kMostHostSlotBytes);
  if (rank_group_.on_one_host()) return cached;
  // The slots of all far ranks are mirrored here.
  return std::clamp(std::bit_floor(share_of(kMirroredBytes)), kLeastHostSlotBytes, cached);
}

/// The default of CCLMARK_BRIDGE_WHOLE_BYTES. All ranks know what it depends on.
size_t Bridge::usual_whole_bytes() const {
  if (direct_ && device_.synchronous()) return kUsualWholeBytesOfHostRanks;
  if (!linked_ || reduced_on_host_) return kUsualWholeBytes;
  int largest = 1;
  for (int i = 0; i < map_.islands(); ++i) largest = std::max(largest, map_.ranks_of(i));
  size_t others = std::max<size_t>(1, static_cast<size_t>(largest) - 1);
  return std::max(kUsualWholeBytes, kUsualWholeBytesOfLinkedPairs / others);
}

/// Maps the flags, and without peer copies the slots, of this rank and of those in other islands.
void Bridge::open_blocks(HostExchange* host_exchange) {
  size_t bytes = layout().flag_bytes() + (direct_ ? 0 : kSlots * slot_bytes_);
  // Released when all ranks have mapped it; mappings remain valid.
  std::unique_ptr<Device> memory = open_host_device(0);
  Buffer own(*memory, bytes);
  // Touched here first, so that the pages are near their owner.
  std::memset(own.data(), 0, bytes);
  HostAllocation allocation = find_host_allocation(own.data());
  std::vector<double> all =
      rank_group_.gather(std::array<double, 2>{double(getpid()), double(allocation.fd)});
  std::vector<std::byte*> mirrors(hosts_.size());
  for (int peer = 0; peer < map_.ranks(); ++peer) {
    if (peer != rank_ && !abroad(peer)) continue;
    auto at = static_cast<size_t>(peer) * 2;
    HostBlock& block = host(peer);
    block.bytes = bytes;
    if (rank_group_.here(peer)) {
      block.base = static_cast<std::byte*>(
          map_host_memory(static_cast<pid_t>(all[at]), static_cast<int>(all[at + 1]), bytes));
    } else {
      block.base = new_mirror(bytes);
      mirrors[static_cast<size_t>(peer)] = block.base;
    }
    pin(block);
  }
  if (host_exchange != nullptr) {
    // Host ranks have a processor each at best, and this thread is one more.
    bool crowded = rank_group_.oversubscribed() || device_.synchronous();
    remote_ = std::make_unique<RemoteSlots>(*host_exchange, rank_group_, crowded, layout(),
                                            host(rank_).base, std::move(mirrors));
  }
  rank_group_.barrier();
}

void Bridge::pin(HostBlock& block) {
  block.for_device = block.base;
  if (device_.synchronous()) return;
  try {
    block.for_device = static_cast<std::byte*>(device_.pin(block.base, block.bytes));
    block.pinned_by = &device_;
  } catch (const UnsupportedError&) {
    // Copies also work with memory that is not pinned; the host handles the flags then.
  }
}

/// Determines whether streams wait for flags and set them. All ranks that have streams must agree,
/// so that ranks of one kind are measured alike.
void Bridge::prove_streams() {
  bool without = device_.synchronous();
  bool proven = !without && try_streams();
  std::vector<double> all =
      rank_group_.gather(std::array<double, 1>{without || proven ? 1.0 : 0.0});
  on_streams_ = proven && std::ranges::count(all, 0.0) == 0;
}

/// Tests this rank's streams on a flag that no other rank uses.
bool Bridge::try_streams() {
  auto usable = [&](const HostBlock& block) {
    return block.base == nullptr || block.pinned_by != nullptr;
  };
  if (!std::ranges::all_of(hosts_, usable)) return false;
  Stream stream(device_);
  Event event(device_);
  auto flag = reinterpret_cast<uint32_t*>(host(rank_).for_device + SlotLayout::taken(rank_, 0));
  try {
    device_.write_flag(flag, 1, stream.get());
    device_.wait_for_flag(flag, 1, stream.get());
    device_.record(event.get(), stream.get());
    device_.wait_for_event(event.get(), stream.get());
  } catch (const Error&) {
    return false;  // vendors have many codes for unsupported calls
  }
  wait_until_idle(stream.get());
  return true;
}

/// The bridge's own memory, then that of the island's library.
std::vector<MemoryBlock> Bridge::memory_blocks() const {
  std::vector<MemoryBlock> blocks;
  auto add = [&](const char* purpose, MemoryPlace place, size_t bytes, const void* address,
                 bool mapped) {
    if (bytes == 0) return;
    blocks.push_back({.purpose = purpose,
                      .place = place,
                      .bytes = bytes,
                      .address = address,
                      .mapped = mapped,
                      .of_library = true});
  };
  MemoryPlace place = place_of_allocations(device_);
  if (direct_) {
    add("slots of this rank", place, kSlots * slot_bytes_, slots_, false);
  } else {
    add("slots of this rank", place, own_slots_.size_bytes(), own_slots_.data(), false);
    add("data taken from other islands", place, landings_.size_bytes(), landings_.data(), false);
  }
  for (int peer = 0; peer < map_.ranks(); ++peer) {
    const HostBlock& block = hosts_[static_cast<size_t>(peer)];
    bool own = peer == rank_;
    if (direct_ && !own && peers_[static_cast<size_t>(peer)] != nullptr) {
      add("slots of another rank", place, kSlots * slot_bytes_, peers_[static_cast<size_t>(peer)],
          true);
    }
    if (block.base == nullptr) continue;
    MemoryPlace where = block.pinned_by != nullptr ? MemoryPlace::pinned_host
                        : rank_group_.here(peer)   ? MemoryPlace::shared_host
                                                   : MemoryPlace::host;
    const char* purpose = direct_ ? "flags" : "flags and slots";
    const char* other = direct_ ? "flags of another rank" : "flags and slots of another rank";
    // A rank of another host is mirrored in memory of this one.
    add(own ? purpose : other, where, block.bytes, block.base, !own && rank_group_.here(peer));
  }
  add("reduction on the host", MemoryPlace::host, own_on_host_.size() + other_on_host_.size(),
      own_on_host_.data(), false);
  if (island_ != nullptr) {
    for (MemoryBlock& block : island_->memory_blocks()) blocks.push_back(std::move(block));
  }
  return blocks;
}

/// Waits for a flag of `owner` that `peer` raises.
void Bridge::await(SlotAction cause, int peer, int owner, size_t flag, uint32_t value,
                   void* stream) {
  HostBlock& block = host(owner);
  if (on_streams_) {
    device_.wait_for_flag(reinterpret_cast<uint32_t*>(block.for_device + flag), value, stream);
    return;
  }
  if (reached(block.base, flag, value)) return;
  const int64_t begin_ns = tap_.begin();
  Patience patience(rank_group_.oversubscribed());
  while (!reached(block.base, flag, value)) {
    if (!patience.pause()) continue;
    check();
    rank_group_.check(owner);
  }
  tap_.add(cause, peer, value, 0, begin_ns);
}

void Bridge::tell(int owner, size_t flag, uint32_t value, void* stream) {
  HostBlock& block = host(owner);
  if (on_streams_) {
    device_.write_flag(reinterpret_cast<uint32_t*>(block.for_device + flag), value, stream);
    return;
  }
  wait_until_idle(stream);
  raise_flag(block.base, flag, value);
}

void Bridge::wait_until_idle(void* stream) {
  auto wait = [&] { cclmark::wait_until_idle(device_, stream, *this, rank_group_); };
  if (device_.synchronous()) return wait();
  tap_.during(SlotAction::wait_device, -1, 0, 0, wait);
}

/// Makes one stream wait until the other has completed the work enqueued so far.
void Bridge::join(void* waiting, void* awaited) {
  if (waiting == awaited) return;
  device_.record(events_[0].get(), awaited);
  device_.wait_for_event(events_[0].get(), waiting);
}

void Bridge::publish(const Step& step, size_t number, const Run& now) {
  if (!step.publishes) {
    perform(step.work, 0, 0, now, nullptr);
  } else {
    uint32_t sequence = ++published_;
    Published& before = in_slots_[sequence % kSlots];
    void* stream = step.on_main() ? now.main : now.out;
    for (const Reader& reader : before.readers) {
      await(SlotAction::wait_slot, reader.rank, rank_,
            SlotLayout::taken(reader.rank, before.sequence), before.sequence, stream);
    }
    before.sequence = sequence;
    before.readers.assign(step.readers.begin(), step.readers.end());
    std::byte* slot = slots_ + place(sequence);
    std::byte* shared = direct_ ? slot : host(rank_).base + layout().flag_bytes() + place(sequence);
    const std::byte* source = now.send + step.from;
    if (step.on_main()) {
      perform(step.work, sequence, step.bytes, now, slot);
      source = slot;
      if (!direct_ && step.bytes > 0) {
        stream = now.out;
        join(stream, now.main);
      }
    }
    tap_.during(SlotAction::publish, -1, sequence, step.bytes, [&] {
      if (step.bytes > 0 && source != shared) {
        copy(shared, source, step.bytes, stream);
      }
      for (const Reader& reader : step.readers) {
        if (far(reader.rank)) {
          remote_->send(reader.rank, sequence, shared + reader.at, reader.bytes);
        }
      }
      tell(rank_, SlotLayout::ready(), sequence, stream);
    });
  }
  // Data taken in this step is added to this rank's result, or overwrites data that was read here.
  if (now.apart && step.reduces) {
    // An earlier step on the main stream may still write the data that this one adds to.
    if (!step.on_main()) join(now.out, now.main);
    device_.record(events_[1 + number % kSlots].get(), step.on_main() ? now.main : now.out);
  }
}

void Bridge::take(const Step& step, size_t number, const Run& now) {
  for (int publisher : step.publishers) ++seen_[static_cast<size_t>(publisher)];
  void* stream = now.in[number % kTakers];
  bool lands = step.reduces && !direct_;
  // The streams alternate between the landings too: a reduction from one completes before it is
  // written again.
  std::byte* landing = landings_.data() + number % kTakers * landing_bytes();
  if (now.apart && step.reduces && !step.takes.empty()) {
    device_.wait_for_event(events_[1 + number % kSlots].get(), stream);
  }
  for (const Take& piece : step.takes) {
    uint32_t sequence = seen_[static_cast<size_t>(piece.source)];
    if (far(piece.source)) remote_->expect(piece.source, sequence, piece.at, piece.bytes);
    await(SlotAction::wait_published, piece.source, piece.source, SlotLayout::ready(), sequence,
          stream);
    const std::byte* from = (direct_ ? peers_[static_cast<size_t>(piece.source)]
                                     : host(piece.source).base + layout().flag_bytes()) +
                            place(sequence) + piece.at;
    SlotAction action = step.reduces && !lands ? SlotAction::reduce : SlotAction::read;
    tap_.during(action, piece.source, sequence, piece.bytes, [&] {
      if (piece.bytes == 0) {
        // Only the wait was required.
      } else if (lands) {
        device_.copy_async(landing, from, piece.bytes, stream);
      } else if (step.reduces) {
        reduce(piece, from, now, stream);
      } else {
        copy(now.receive + piece.to, from, piece.bytes, stream);
      }
      tell(piece.source, SlotLayout::taken(rank_, sequence), sequence, stream);
    });
    if (lands && piece.bytes > 0) {
      tap_.during(SlotAction::reduce, piece.source, sequence, piece.bytes,
                  [&] { reduce(piece, landing, now, stream); });
      landing += (piece.bytes + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
    }
  }
  // Later work on the main stream may write to the slot that was read here.
  bool of_slot = std::ranges::any_of(
      step.takes, [](const Take& piece) { return piece.own == Take::Own::slot; });
  if (!step.finish.empty() || of_slot) join(now.main, stream);
  perform(step.finish, 0, 0, now, nullptr);
}

/// Enqueues what happens within the island. `slot`: nullptr if nothing is published; otherwise the
/// publication has this sequence number and so many bytes.
void Bridge::perform(const std::vector<InnerWork>& work, uint32_t sequence, size_t bytes,
                     const Run& now, std::byte* slot) {
  if (work.empty()) return;
  tap_.during(SlotAction::island, -1, sequence, bytes, [&] { enqueue_inner(work, now, slot); });
}

void Bridge::enqueue_inner(const std::vector<InnerWork>& work, const Run& now, std::byte* slot) {
  std::byte* into = slot != nullptr ? slot : slots_;  // which no rank reads then
  for (const InnerWork& one : work) {
    const std::byte* from =
        (one.from.space == Space::input ? now.send : now.receive) + one.from.offset;
    std::byte* to = (one.to.space == Space::slot ? into : now.receive) + one.to.offset;
    if (one.operation) {
      enqueue_part(*one.call, from, to);
    } else if (to != from && one.bytes > 0) {
      device_.copy_async(to, from, one.bytes, now.main);
    }
  }
}

/// Enqueues a part of an operation. Other parts may be enqueued already, so a refusal is a failure.
void Bridge::enqueue_part(Call& call, const void* from, void* to) {
  try {
    call.enqueue(from, to);
  } catch (const RefusedError& error) {
    throw Error(error.what());
  }
}

void Bridge::copy(std::byte* to, const std::byte* from, size_t bytes, void* stream) {
  if (copies_ == nullptr || bytes > sizes_.kernel) {
    device_.copy_async(to, from, bytes, stream);
    return;
  }
  ReduceArguments arguments{};
  arguments.out = reinterpret_cast<unsigned char*>(to);
  arguments.b = reinterpret_cast<const unsigned char*>(from);
  arguments.count = bytes;
  device_.launch(*copies_, &arguments, (bytes + kVectorBytes - 1) / kVectorBytes, stream);
}

/// Adds another island's data to this island's.
void Bridge::reduce(const Take& piece, const std::byte* other, const Run& now, void* stream) {
  const std::byte* own = now.receive + piece.to;
  if (piece.own == Take::Own::input) own = now.send + piece.own_at;
  if (piece.own == Take::Own::slot) {
    own = slots_ + place(seen_[static_cast<size_t>(rank_)]) + piece.own_at;
  }
  bool averages = now.op.reduction == Reduction::avg;
  auto bytes_of = [](const std::byte* memory) {
    return reinterpret_cast<const unsigned char*>(memory);
  };
  ReduceArguments arguments{};
  arguments.out = reinterpret_cast<unsigned char*>(now.receive + piece.to);
  arguments.a = bytes_of(own);
  arguments.b = bytes_of(other);
  arguments.count = piece.bytes / size_bytes(now.op.dtype);
  arguments.dtype = static_cast<int>(now.op.dtype);
  arguments.reduction = static_cast<int>(averages ? Reduction::sum : now.op.reduction);
  arguments.divisor = averages && piece.last ? static_cast<unsigned>(map_.ranks()) : 1;
  if (host_reduces_ == nullptr) {
    device_.launch(*reduces_, &arguments, (piece.bytes + kVectorBytes - 1) / kVectorBytes, stream);
    return;
  }
  wait_until_idle(stream);
  for (auto* room : {&own_on_host_, &other_on_host_}) {
    if (room->size() < piece.bytes) room->resize(piece.bytes);
  }
  device_.copy_to_host(own_on_host_.data(), own, piece.bytes);
  device_.copy_to_host(other_on_host_.data(), other, piece.bytes);
  arguments.out = reinterpret_cast<unsigned char*>(own_on_host_.data());
  arguments.a = bytes_of(own_on_host_.data());
  arguments.b = bytes_of(other_on_host_.data());
  host_reduces_->launch(*reduces_, &arguments, 0, nullptr);
  device_.copy_from_host(now.receive + piece.to, own_on_host_.data(), piece.bytes);
}

void Bridge::run(const std::vector<Step>& steps, Run now) {
  // Earlier work must complete before other ranks read its output or it is overwritten.
  join(now.out, now.main);
  for (void* stream : now.in) join(stream, now.main);
  size_t ahead = direct_ ? kAhead : kAheadThroughHost;
  for (size_t i = 0; i < steps.size() + ahead; ++i) {
    if (i < steps.size()) publish(steps[i], i, now);
    if (i >= ahead) take(steps[i - ahead], i - ahead, now);
  }
  join(now.main, now.out);
  for (void* stream : now.in) join(now.main, stream);
}

class BridgeCall final : public Call {
 public:
  BridgeCall(Bridge& bridge, const Operation& op, void* stream)
      : bridge_(bridge),
        op_(op),
        stream_(stream),
        steps_(plan_between_islands({bridge.island_, bridge.map_, bridge.rank_,
                                     bridge.stretch_bytes(op), stream, bridge.sizes_.whole},
                                    op)) {
    size_t bytes = 0, steps = 0;
    for (const Step& step : steps_) {
      if (step.publishes) bytes += step.bytes;
      for (const Take& piece : step.takes) bytes += piece.bytes;
      steps += step.publishes || !step.takes.empty();
    }
    apart_ = bridge.on_streams_ && steps > 1 && bytes > bridge.sizes_.apart;
  }

  std::string kernel() const override {
    if (op_.collective != Collective::barrier) return bridge_.route(op_);
    return std::to_string(bridge_.map_.islands()) + " islands, flags without data";
  }

  std::vector<PlannedStep> steps() const override {
    const IslandMap& map = bridge_.map_;
    std::vector<std::vector<Step>> of_island;
    for (int i = 0; i < map.ranks_of(bridge_.mine_); ++i) {
      int rank = map.first_of(bridge_.mine_) + i;
      PlanSite site{nullptr, map, rank, bridge_.stretch_bytes(op_), nullptr, bridge_.sizes_.whole};
      of_island.push_back(plan_between_islands(site, op_));
    }
    return described({map, bridge_.rank_, steps_, of_island,
                      [this](int source) { return bridge_.transport_to(source); }});
  }

  void enqueue(const void* send, void* receive) override {
    auto stream = [&](size_t i) { return apart_ ? bridge_.streams_[i].get() : stream_; };
    try {
      bridge_.run(steps_, {op_,
                           static_cast<const std::byte*>(send),
                           static_cast<std::byte*>(receive),
                           stream_,
                           stream(0),
                           {stream(1), stream(2)},
                           apart_});
    } catch (const UnsupportedError& error) {
      // Other ranks have started the operation: the case can no longer be skipped.
      throw Error(std::string("in an island: ") + error.what());
    }
  }

 private:
  Bridge& bridge_;
  Operation op_;
  void* stream_;
  std::vector<Step> steps_;
  bool apart_;
};

std::unique_ptr<Call> Bridge::bind(const Operation& operation, void* stream) {
  return std::make_unique<BridgeCall>(*this, operation, stream);
}

}  // namespace

std::unique_ptr<Communicator> join_islands(Device& device, RankGroup& rank_group,
                                           const Islands& islands, Communicator* own,
                                           HostExchange* host_exchange) {
  return std::make_unique<Bridge>(device, rank_group, islands, own, host_exchange);
}

}  // namespace cclmark
