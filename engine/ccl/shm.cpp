// The built-in library for ranks of one host.
//
// Host buffers are anonymous files (device/host.cpp). A rank that takes part in an operation
// publishes where its buffers are; its peers map them once and from then on read and write them
// directly: no message is ever copied into a staging area and out again. Small payloads travel in
// the announcement itself.
//
// Every operation has a sequence number. A rank *publishes* number s when its announcement for s is
// readable, and is *done* with s when it will not touch any peer's memory for s any more, be it the
// announcement or a buffer. Announcements lie in a ring of kDepth, so a rank may run that far ahead
// of the slowest one.
//
// What ranks wait for crosses between cores one cache line at a time, so an announcement carries
// its own number: a small payload arrives in the very line that says that it is there.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "ccl/communicator.hpp"
#include "ccl/shm_kernels.hpp"
#include "collective/table.hpp"
#include "core/size_settings.hpp"
#include "core/waiting.hpp"
#include "device/host.hpp"

namespace cclmark {

extern const ShmKernels kShmKernels_baseline;
#if defined(CCLMARK_X86_KERNELS)
extern const ShmKernels kShmKernels_avx2;
extern const ShmKernels kShmKernels_avx512;
#endif

const ShmKernels& shm_kernels() {
#if defined(CCLMARK_X86_KERNELS)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) {
    return kShmKernels_avx512;
  }
  if (__builtin_cpu_supports("avx2")) return kShmKernels_avx2;
#endif
  return kShmKernels_baseline;
}

namespace {

constexpr uint64_t kDepth = 64;
/// What a user can set, in the order of ShmSizes; the same values on all ranks.
/// src/cclmark/libraries/ shm.toml describes them for users.
constexpr SizeSetting kShmSettings[] = {
    // An announcement has room for so many bytes.
    {"CCLMARK_SHM_INLINE_BYTES", 0, size_t{64} << 10, 2048},
    // From here on results go past the cache: larger ones would push everything else out of it.
    {"CCLMARK_SHM_STREAM_BYTES", 0, size_t{1} << 40, size_t{2} << 20},
};
constexpr size_t kLineBytes = 64;
constexpr size_t kMappingsPerPeer = 8;

/// Where a buffer lies: which file of its owner, and where in it.
struct Location {
  int fd = -1;
  unsigned serial = 0;
  size_t file_bytes = 0;
  size_t offset = 0;
};

struct Buffers {
  Location send;
  Location receive;
};

/// A rank's announcement for one operation: its buffers, or the input itself, which may be longer
/// than this structure.
struct alignas(kLineBytes) Announcement {
  std::atomic<uint64_t> sequence;  // the operation that this is for; written last
  Buffers buffers;

  std::byte* payload() { return reinterpret_cast<std::byte*>(this) + sizeof(sequence); }
  const std::byte* payload() const {
    return reinterpret_cast<const std::byte*>(this) + sizeof(sequence);
  }
};
static_assert(sizeof(Announcement) == kLineBytes);

/// A rank's part of the common memory. Its ring of announcements follows.
struct Slot {
  alignas(kLineBytes) std::atomic<uint64_t> done;
  alignas(kLineBytes) std::atomic<int> pid;
};

/// What a user can set, and what follows for the common memory.
struct ShmSizes {
  size_t inlined;  ///< up to so many bytes travel in announcements
  size_t stream;

  size_t announcement_bytes() const {
    size_t bytes = std::max(sizeof(Announcement), sizeof(uint64_t) + inlined);
    return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  }
  size_t slot_bytes() const { return sizeof(Slot) + kDepth * announcement_bytes(); }
};

/// The id that rank 0 distributes: the location of the common memory.
struct Id {
  char magic[8] = {'c', 'c', 'l', 'm', '-', 's', 'h', 'm'};
  int pid = 0;
  int fd = -1;
};

/// A file of another process (or of this one) mapped into memory.
class Mapping {
 public:
  Mapping(int pid, int fd, size_t bytes)
      : memory_(map_host_memory(pid, fd, bytes)), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : memory_(std::exchange(other.memory_, MAP_FAILED)), bytes_(other.bytes_) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping() {
    if (memory_ != MAP_FAILED) munmap(memory_, bytes_);
  }
  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  size_t size_bytes() const { return bytes_; }

 private:
  void* memory_;
  size_t bytes_;
};

/// The buffers of a peer that were mapped so far.
class PeerMemory {
 public:
  std::byte* resolve(int pid, const Location& at) {
    for (Known& known : known_) {
      if (known.serial == at.serial) return known.mapping.data() + at.offset;
    }
    if (known_.size() >= kMappingsPerPeer) known_.erase(known_.begin());
    known_.push_back({at.serial, Mapping(pid, at.fd, at.file_bytes)});
    return known_.back().mapping.data() + at.offset;
  }

  /// Calls `report` with each mapping.
  template <typename Report>
  void for_each(Report report) const {
    for (const Known& known : known_) report(known.mapping);
  }

 private:
  struct Known {
    unsigned serial;
    Mapping mapping;
  };
  std::vector<Known> known_;
};

/// Part `index` of `count` elements cut into `parts`, in multiples of a cache line.
struct Slice {
  size_t first, count;
  Slice(size_t total, size_t width, int index, int parts) {
    size_t line = std::max<size_t>(1, 64 / width);
    size_t lines = (total + line - 1) / line;
    auto i = static_cast<size_t>(index), n = static_cast<size_t>(parts);
    first = std::min(total, lines * i / n * line);
    count = std::min(total, lines * (i + 1) / n * line) - first;
  }
};

class ShmCommunicator final : public Communicator {
 public:
  ShmCommunicator(Device& device, const Id& id, RankGroup& rank_group, const ShmSizes& sizes)
      : rank_group_(rank_group),
        device_(device),
        kernels_(shm_kernels()),
        rank_(rank_group.rank()),
        size_(rank_group.size()),
        sizes_(sizes),
        announcement_bytes_(sizes.announcement_bytes()),
        slot_bytes_(sizes.slot_bytes()),
        common_(id.pid, id.fd, bytes_for(size_, sizes)),
        peers_(static_cast<size_t>(size_)),
        known_done_(static_cast<size_t>(size_)),
        send_(static_cast<size_t>(size_)),
        receive_(static_cast<size_t>(size_)) {
    slot(rank_).pid.store(getpid(), std::memory_order_release);
    for (int peer = 0; peer < size_; ++peer) {
      wait_for(SlotAction::wait_published, peer, 0,
               [&] { return slot(peer).pid.load(std::memory_order_acquire) != 0; });
    }
  }

  static size_t bytes_for(int ranks, const ShmSizes& sizes) {
    return sizes.slot_bytes() * static_cast<size_t>(ranks);
  }

  std::unique_ptr<Call> bind(const Operation& operation, void*) override;

  std::string route(const Operation&) const override { return "native"; }

  std::vector<Connection> connections() const override {
    std::vector<Connection> found;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_) found.push_back({peer, "shared memory"});
    }
    return found;
  }

  std::string no_registration(Registration) const override {
    return "shm maps every buffer and does not support registration: use --register none";
  }

  SlotTimes record_slots(const SlotTap& tap) override {
    tap_ = tap;
    return SlotTimes::executed;
  }

  std::vector<MemoryBlock> memory_blocks() const override {
    std::vector<MemoryBlock> blocks;
    auto add = [&](const char* purpose, size_t bytes, const void* address, bool mapped) {
      blocks.push_back({.purpose = purpose,
                        .place = MemoryPlace::shared_host,
                        .bytes = bytes,
                        .address = address,
                        .mapped = mapped,
                        .of_library = true});
    };
    // One file for all ranks: each rank's slot counts as its own.
    add("announcements of this rank", slot_bytes_, &slot(rank_), false);
    if (size_ > 1) {
      add("announcements of the other ranks", common_.size_bytes() - slot_bytes_, common_.data(),
          true);
    }
    for (const PeerMemory& peer : peers_) {
      peer.for_each([&](const Mapping& mapping) {
        add("buffer of another rank", mapping.size_bytes(), mapping.data(), true);
      });
    }
    return blocks;
  }

 private:
  friend class ShmCall;

  Slot& slot(int rank) const {
    return *reinterpret_cast<Slot*>(common_.data() + static_cast<size_t>(rank) * slot_bytes_);
  }

  template <typename Ready>
  void wait_for(SlotAction cause, int peer, uint64_t sequence, Ready ready) const {
    if (ready()) return;
    const int64_t begin_ns = tap_.begin();
    Patience patience(rank_group_.oversubscribed());
    while (!ready()) {
      if (patience.pause()) rank_group_.check(peer);
    }
    tap_.add(cause, peer, sequence, 0, begin_ns);
  }

  /// Begins the next operation: waits until the ring has room for its announcement.
  Announcement& next_announcement() {
    ++sequence_;
    if (sequence_ > kDepth) {
      for (int step = 1; step < size_; ++step) {
        await_done(SlotAction::wait_slot, (rank_ + step) % size_, sequence_ - kDepth);
      }
    }
    return announcement(rank_);
  }
  void publish() { announcement(rank_).sequence.store(sequence_, std::memory_order_release); }
  void done() { slot(rank_).done.store(sequence_, std::memory_order_release); }

  Announcement& announcement(int rank) const {
    std::byte* ring = reinterpret_cast<std::byte*>(&slot(rank)) + sizeof(Slot);
    return *reinterpret_cast<Announcement*>(ring + sequence_ % kDepth * announcement_bytes_);
  }

  const Announcement& await_published(int peer) const {
    const Announcement& theirs = announcement(peer);
    wait_for(SlotAction::wait_published, peer, sequence_,
             [&] { return theirs.sequence.load(std::memory_order_acquire) == sequence_; });
    return theirs;
  }

  /// Looks at the peer's memory only if what was last seen there does not answer the question yet.
  void await_done(SlotAction cause, int peer, uint64_t sequence) {
    uint64_t& known = known_done_[static_cast<size_t>(peer)];
    if (known >= sequence) return;
    wait_for(cause, peer, sequence, [&] {
      known = slot(peer).done.load(std::memory_order_acquire);
      return known >= sequence;
    });
  }

  static Location locate(const void* memory) {
    HostAllocation allocation = find_host_allocation(memory);
    auto offset = static_cast<size_t>(static_cast<const std::byte*>(memory) - allocation.base);
    return {allocation.fd, allocation.serial, allocation.bytes, offset};
  }

  /// Announces this rank's buffers, `send` with the bytes that others read, and maps those of
  /// `sources`, once they have announced theirs: send_ and receive_ then hold the addresses of
  /// these ranks and of this one. Empty buffers (of ranks that only send or only receive) may be
  /// null.
  template <bool kRecords>
  void exchange_buffers(const void* send, size_t send_bytes, void* receive,
                        std::span<const int> sources) {
    Announcement& own = next_announcement();
    during<kRecords>(SlotAction::publish, -1, send_bytes, [&] {
      own.buffers.send = send != nullptr ? locate(send) : Location{};
      own.buffers.receive = receive != nullptr ? locate(receive) : Location{};
      publish();
    });
    send_[static_cast<size_t>(rank_)] = static_cast<const std::byte*>(send);
    receive_[static_cast<size_t>(rank_)] = static_cast<std::byte*>(receive);
    for (int peer : sources) {
      auto i = static_cast<size_t>(peer);
      const Buffers& theirs = await_published(peer).buffers;
      send_[i] = resolve(peer, theirs.send);
      receive_[i] = resolve(peer, theirs.receive);
    }
  }

  /// Calls `body`, a part of the current operation, and records it if that was requested.
  template <bool kRecords, typename Body>
  void during(SlotAction action, int peer, size_t bytes, const Body& body) const {
    if constexpr (kRecords) {
      tap_.during(action, peer, sequence_, bytes, body);
    } else {
      body();
    }
  }

  std::byte* resolve(int peer, const Location& at) {
    if (at.fd < 0) return nullptr;
    int pid = slot(peer).pid.load(std::memory_order_relaxed);
    return peers_[static_cast<size_t>(peer)].resolve(pid, at);
  }

  RankGroup& rank_group_;
  Device& device_;
  const ShmKernels& kernels_;
  int rank_;
  int size_;
  ShmSizes sizes_;
  size_t announcement_bytes_;
  size_t slot_bytes_;
  Mapping common_;
  std::vector<PeerMemory> peers_;
  std::vector<uint64_t> known_done_;  // what was last seen in the peers' slots
  std::vector<const std::byte*> send_;
  std::vector<std::byte*> receive_;
  uint64_t sequence_ = 0;
  SlotTap tap_;
};

/// One bound operation. What each collective moves is in the table of collectives (the segments of
/// its output); what is left to say here is which rank does which part.
class ShmCall final : public Call {
 public:
  ShmCall(ShmCommunicator& comm, const Operation& operation)
      : comm_(comm), op_(operation), width_(size_bytes(operation.dtype)) {
    const CollectiveInfo& row = info(operation.collective);
    std::vector<Segment> segments = row.expected(operation, comm.rank_, comm.size_);
    send_bytes_ = row.send_count(operation, comm.rank_, comm.size_) * width_;
    receive_bytes_ = row.receive_count(operation, comm.rank_, comm.size_) * width_;
    size_t largest = 0;
    for (int rank = 0; rank < comm.size_; ++rank) {
      largest = std::max(largest, row.send_count(operation, rank, comm.size_) * width_);
    }
    for (int step = 1; step < comm.size_; ++step) {
      int peer = (comm.rank_ + step) % comm.size_;
      if (row.reduces || reads_from(segments, peer)) sources_.push_back(peer);
      if (row.reduces || reads_from(row.expected(operation, peer, comm.size_), comm.rank_)) {
        users_.push_back(peer);
      }
    }
    inline_ = largest <= comm.sizes_.inlined;
    stream_ = largest >= comm.sizes_.stream;
    if (row.reduces) {
      plan_reduction(segments);
    } else {
      plan_copies(std::move(segments));
    }
  }

  std::string kernel() const override {
    if (op_.collective == Collective::barrier) return "announcements";
    if (inline_) return "inline in announcements";
    std::string past_cache = stream_ ? ", past the cache" : "";
    switch (op_.collective) {
      case Collective::all_reduce:
      case Collective::reduce:
        return "each rank reduces one slice" + past_cache;
      case Collective::reduce_scatter:
        return "each rank reduces its part" + past_cache;
      case Collective::all_gather:
      case Collective::broadcast:
      case Collective::alltoall:
      case Collective::alltoallv:
      case Collective::gather:
      case Collective::scatter:
      case Collective::sendrecv:
      case Collective::send:
      case Collective::ping_pong:
      case Collective::barrier:
        break;
    }
    return "each rank copies from its peers" + past_cache;
  }

  /// Timed operations have no code that records, only this comparison.
  void enqueue(const void* send, void* receive) override {
    if (comm_.tap_.records()) [[unlikely]] {
      return run<true>(send, static_cast<std::byte*>(receive));
    }
    run<false>(send, static_cast<std::byte*>(receive));
  }

  std::vector<PlannedStep> steps() const override;

 private:
  /// The same part of all inputs, which this rank reduces, and the ranks that get the result. In
  /// elements.
  struct Reduced {
    size_t from = 0, count = 0, to = 0;
    std::vector<int> targets;
  };

  template <bool kRecords>
  void run(const void* send, std::byte* receive) {
    if (op_.collective == Collective::barrier) return barrier<kRecords>();
    if (op_.collective == Collective::ping_pong) return ping_pong<kRecords>(send, receive);
    if (inline_) return run_inline<kRecords>(send, receive);
    comm_.exchange_buffers<kRecords>(send_bytes_ > 0 ? send : nullptr, send_bytes_,
                                     receive_bytes_ > 0 ? receive : nullptr, sources_);
    if (reduction_.count > 0) reduce<kRecords>();
    pull<kRecords>(receive);
    comm_.done();
    for (int peer : users_) comm_.await_done(SlotAction::wait_buffers, peer, comm_.sequence_);
  }

  static bool reads_from(const std::vector<Segment>& segments, int peer) {
    return std::any_of(segments.begin(), segments.end(), [peer](const Segment& segment) {
      return segment.source == peer && segment.count > 0;
    });
  }

  template <bool kRecords>
  void barrier() {
    comm_.next_announcement();
    comm_.during<kRecords>(SlotAction::publish, -1, 0, [&] { comm_.publish(); });
    for (int step = 1; step < comm_.size_; ++step) {
      comm_.await_published((comm_.rank_ + step) % comm_.size_);
    }
    comm_.done();
  }

  /// The second rank looks at its own message only when it has the first one's.
  template <bool kRecords>
  void ping_pong(const void* send, std::byte* receive) {
    int peer = 1 - comm_.rank_;
    Announcement& own = comm_.next_announcement();
    auto give = [&] {
      comm_.during<kRecords>(SlotAction::publish, -1, send_bytes_, [&] {
        if (inline_) {
          std::memcpy(own.payload(), send, send_bytes_);
        } else {
          own.buffers = {ShmCommunicator::locate(send), {}};
        }
        comm_.publish();
      });
    };
    if (comm_.rank_ == 0) give();
    const Announcement& theirs = comm_.await_published(peer);
    comm_.during<kRecords>(SlotAction::read, peer, receive_bytes_, [&] {
      if (inline_) {
        std::memcpy(receive, theirs.payload(), receive_bytes_);
      } else {
        comm_.kernels_.copy(receive, comm_.resolve(peer, theirs.buffers.send), receive_bytes_,
                            stream_);
      }
    });
    if (comm_.rank_ == 1) give();
    comm_.done();
    if (!inline_) comm_.await_done(SlotAction::wait_buffers, peer, comm_.sequence_);
  }

  /// What is small every rank reduces for itself; else the ranks share it out.
  void plan_reduction(const std::vector<Segment>& segments) {
    bool shared = !inline_ && op_.collective != Collective::reduce_scatter;
    if (!shared) {
      if (segments.empty()) return;
      const Segment& own = segments.front();
      reduction_ = {own.source_element, own.count, own.output_element, {comm_.rank_}};
    } else {
      Slice slice(op_.count, width_, comm_.rank_, comm_.size_);
      reduction_ = {slice.first, slice.count, slice.first, {}};
      for (int rank = 0; rank < comm_.size_; ++rank) {
        bool wanted = info(op_.collective).receive_count(op_, rank, comm_.size_) > 0;
        if (wanted) reduction_.targets.push_back(rank);
      }
    }
    targets_.resize(reduction_.targets.size());
  }

  /// The parts of the output, starting at a different source on each rank.
  void plan_copies(std::vector<Segment> segments) {
    if (segments.empty()) return;
    auto first = static_cast<size_t>(comm_.rank_) % segments.size();
    std::ranges::rotate(segments, segments.begin() + static_cast<ptrdiff_t>(first));
    std::erase_if(segments, [](const Segment& segment) { return segment.count == 0; });
    copies_ = std::move(segments);
  }

  /// Inputs travel in the announcements; everyone computes its own output from them.
  template <bool kRecords>
  void run_inline(const void* send, std::byte* receive) {
    Announcement& own = comm_.next_announcement();
    comm_.during<kRecords>(SlotAction::publish, -1, send_bytes_, [&] {
      if (send_bytes_ > 0) std::memcpy(own.payload(), send, send_bytes_);
      comm_.publish();
    });
    if (reduction_.count > 0) {
      for (int peer = 0; peer < comm_.size_; ++peer) {
        comm_.send_[static_cast<size_t>(peer)] =
            comm_.await_published(peer).payload() + reduction_.from * width_;
      }
      std::byte* to = receive + reduction_.to * width_;
      comm_.during<kRecords>(SlotAction::reduce, -1, reduction_.count * width_, [&] {
        comm_.kernels_.reduce({&to, 1}, comm_.send_, reduction_.count, op_.dtype, op_.reduction,
                              false);
      });
    }
    for (const Segment& segment : copies_) {
      const std::byte* from = comm_.await_published(segment.source).payload();
      std::byte* to = receive + segment.output_element * width_;
      comm_.during<kRecords>(SlotAction::read, segment.source, segment.count * width_, [&] {
        std::memcpy(to, from + segment.source_element * width_, segment.count * width_);
      });
    }
    comm_.done();
  }

  /// Reduces a part of the inputs in send_ and writes the result wherever it is wanted.
  template <bool kRecords>
  void reduce() {
    for (const std::byte*& source : comm_.send_) source += reduction_.from * width_;
    for (size_t i = 0; i < targets_.size(); ++i) {
      auto rank = static_cast<size_t>(reduction_.targets[i]);
      targets_[i] = comm_.receive_[rank] + reduction_.to * width_;
    }
    comm_.during<kRecords>(SlotAction::reduce, -1, reduction_.count * width_, [&] {
      comm_.kernels_.reduce(targets_, comm_.send_, reduction_.count, op_.dtype, op_.reduction,
                            stream_);
    });
  }

  template <bool kRecords>
  void pull(std::byte* receive) {
    for (const Segment& segment : copies_) {
      const std::byte* from =
          comm_.send_[static_cast<size_t>(segment.source)] + segment.source_element * width_;
      std::byte* to = receive + segment.output_element * width_;
      if (to == from) continue;
      comm_.during<kRecords>(SlotAction::read, segment.source, segment.count * width_, [&] {
        comm_.kernels_.copy(to, from, segment.count * width_, stream_);
      });
    }
  }

  ShmCommunicator& comm_;
  Operation op_;
  size_t width_;
  Reduced reduction_;
  std::vector<std::byte*> targets_;  // its addresses in the current call
  std::vector<Segment> copies_;
  std::vector<int> sources_;  // whose memory this rank touches
  std::vector<int> users_;    // who touches this rank's memory
  size_t send_bytes_ = 0;
  size_t receive_bytes_ = 0;
  bool inline_ = false;
  bool stream_ = false;
};

std::vector<PlannedStep> ShmCall::steps() const {
  std::vector<PlannedStep> steps;
  const std::string between = inline_ ? "announcement in shared memory" : "shared memory";
  auto medium = [&](int source, int destination) {
    return source == destination ? std::string() : between;
  };
  int own = comm_.rank_;
  if (op_.collective == Collective::barrier) {
    for (int peer = 0; peer < comm_.size_; ++peer) {
      if (peer == own) continue;
      steps.push_back({.order = {0},
                       .phase = "announcement",
                       .source = peer,
                       .destination = own,
                       .bytes = 0,
                       .reads = {Space::staging, 0},
                       .writes = {Space::staging, 0},
                       .combines = {},
                       .medium = medium(peer, own)});
    }
    return steps;
  }
  if (reduction_.count > 0) {
    size_t bytes = reduction_.count * width_;
    Place part{Space::input, reduction_.from * width_};
    Place result{Space::output, reduction_.to * width_};
    bool at_once = reduction_.targets == std::vector<int>{own};
    Place sum = at_once ? result : Place{Space::staging, part.offset};
    Place addend = part;
    for (int peer = 0; peer < comm_.size_; ++peer) {
      if (peer == own) continue;
      steps.push_back({{0}, "reduction", peer, own, bytes, part, sum, addend, medium(peer, own)});
      addend = sum;
    }
    for (int target : reduction_.targets) {
      if (at_once && comm_.size_ > 1) break;
      Place from = comm_.size_ > 1 ? sum : part;
      steps.push_back({{1}, "result", own, target, bytes, from, result, {}, medium(own, target)});
    }
  }
  for (const Segment& segment : copies_) {
    // The second rank of a ping-pong answers.
    bool answers = op_.collective == Collective::ping_pong && own == 0;
    steps.push_back({{answers ? 1 : 0},
                     "copy",
                     segment.source,
                     own,
                     segment.count * width_,
                     {Space::input, segment.source_element * width_},
                     {Space::output, segment.output_element * width_},
                     {},
                     medium(segment.source, own)});
  }
  return steps;
}

std::unique_ptr<Call> ShmCommunicator::bind(const Operation& operation, void*) {
  if (operation.collective == Collective::ping_pong) require_two_ranks(size_);
  return std::make_unique<ShmCall>(*this, operation);
}

class ShmLibrary final : public Ccl {
 public:
  ShmLibrary() {
    info_.name = "shm";
    info_.version = CCLMARK_VERSION;
    info_.path = "built in";
    info_.id_bytes = sizeof(Id);
    for (const DtypeInfo& dtype : kDtypes) info_.dtypes.emplace_back(dtype.name);
    info_.reduced_dtypes = info_.dtypes;
    info_.reductions.assign(kReductions.begin(), kReductions.end());
    for (std::string_view collective : kCollectives)
      info_.routes.emplace_back(collective, "native");
  }
  ~ShmLibrary() override {
    for (int fd : made_) close(fd);
  }

  const CclInfo& info() const override { return info_; }

  std::vector<uint8_t> make_id(int ranks) override {
    int fd = memfd_create("cclmark-shm", MFD_CLOEXEC);
    if (fd >= 0) made_.push_back(fd);
    size_t bytes = ShmCommunicator::bytes_for(ranks, own_sizes());
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
      throw Error(Error::describe("creating shared memory", errno, std::strerror(errno)));
    }
    Id id;
    id.pid = getpid();
    id.fd = fd;
    auto content = reinterpret_cast<const uint8_t*>(&id);
    return {content, content + sizeof(id)};
  }

  std::unique_ptr<Communicator> join(Device& device, std::span<const uint8_t> bytes,
                                     RankGroup& rank_group) override {
    if (device.info().runtime != "host") {
      throw UnsupportedError("shm supports host memory only: use --devices host");
    }
    Id id;
    if (bytes.size() != sizeof(id) || std::memcmp(bytes.data(), id.magic, sizeof(id.magic)) != 0) {
      throw Error("the communicator id is not an id of shm");
    }
    std::memcpy(&id, bytes.data(), sizeof(id));
    std::vector<size_t> agreed = agreed_sizes(kShmSettings, rank_group);
    ShmSizes sizes{agreed[0], agreed[1]};
    auto communicator = std::make_unique<ShmCommunicator>(device, id, rank_group, sizes);
    // The constructor waits for all ranks, so no rank requires the file any more.
    if (rank_group.rank() == 0 && std::erase(made_, id.fd) > 0) close(id.fd);
    return communicator;
  }

 private:
  static ShmSizes own_sizes() {
    return {size_from_environment(kShmSettings[0]), size_from_environment(kShmSettings[1])};
  }

  CclInfo info_;
  std::vector<int> made_;  // for groups that have not met yet
};

}  // namespace

std::unique_ptr<Ccl> open_shm(const CclDescription&, const CclPlaces& places) {
  if (!places.chosen.empty()) throw Error("shm is built in: --ccl-path does not apply to it");
  return std::make_unique<ShmLibrary>();
}

}  // namespace cclmark
