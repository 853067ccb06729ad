#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/rank_group.hpp"
#include "device/device.hpp"
#include "measure/checker.hpp"
#include "measure/event_reference.hpp"
#include "transfer/exchange.hpp"
#include "transfer/gate.hpp"

namespace cclmark {

/// The engine that moves the data.
enum class Engine : uint8_t {
  copy_engine,  ///< the runtime's copy
  cache_copy,   ///< kernels, see engine/kernels/transfer.cu
  nc_copy,
  bulk_copy,
};

/// The other end of a flow.
enum class FarEnd : uint8_t {
  device,
  pinned,    ///< host memory that the device reaches by itself
  pageable,  ///< any other host memory
};

/// Data going from one place to another.
struct Flow {
  int from = 0;    ///< device; for a flow out of host memory the same as `to`
  int to = 0;      ///< device; for a flow into host memory the same as `from`
  int runner = 0;  ///< the device that copies: `from` writes, or `to` reads
  FarEnd far = FarEnd::device;
  bool to_host = false;
  size_t landing = 0;  ///< which place on `to`, and of its host memory
  double delay_s = 0;  ///< the runner is held up so long inside the timed stretch
};

/// What to copy, all flows at once.
struct Transfer {
  std::vector<Flow> flows;
  Engine engine = Engine::copy_engine;
  size_t bytes = 0;
  size_t offset_bytes = 0;  ///< from the beginning of the buffers
  unsigned blocks = 0;      ///< of kernels; 0: as many as there are multiprocessors
  unsigned threads = 0;     ///< of a block; 0: what suits the kernel
  /// Kernels: all copies of a sample in one launch, whose beginning and end then count once.
  bool one_launch = false;
  bool staged = false;  ///< peer access closed: the runtime goes through the host
};

/// Times of one batch, per flow. NaN and `timed_out` for a flow that did not end.
///
/// `device_s`: per copy, from the gate to the last copy. By the runner's events; `by_host`: by the
/// host's clock, because the runtime does not time its events. `launch_s`: the most of it that was
/// waiting for the host to enqueue the copies, 0 if streams were held. `call_s`: the host's time in
/// the call for one copy.
struct FlowTimes {
  std::vector<double> device_s, launch_s, call_s;
  std::vector<bool> timed_out;
  bool by_host = false;
};

/// The times of the copies of a flow, in nanoseconds of the steady clock; empty for a flow that
/// another process runs.
///
/// `device_begin_s`, `device_end_s`: seconds on the device's clock since the event that was
/// recorded at `reference`; empty where copies run inside the call.
struct TracedFlow {
  std::vector<int64_t> call_begin_ns, call_end_ns;
  std::vector<double> device_begin_s, device_end_s;
  EventReference reference;
};

/// The copies of all flows, one by one. `gate_ns`: when the gate was opened, 0 without a gate.
struct TracedCopies {
  std::vector<TracedFlow> flows;
  int64_t gate_ns = 0;
  int64_t complete_ns = 0;  ///< when those of this process were complete
  std::vector<bool> timed_out;
};

/// Measures transfers between devices.
///
/// All calls are collective: every process makes the same ones with the same arguments, and gets
/// the same results. Copies are enqueued behind a gate on each device's stream, which opens when
/// all are enqueued, so that their launch cost is not part of their time; see GateKind for devices
/// whose streams cannot be held.
class Transfers {
 public:
  Transfers(std::vector<Device*> devices, RankGroup& rank_group, uint32_t seed);
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  /// Chooses how streams are held, by default in the best way that works for all devices. Raises
  /// UnsupportedError, on every rank, if `kind` does not work.
  void choose_gate(GateKind kind);
  GateKind gate() const { return gate_.kind(); }
  /// Why no better gate is used, empty for the first one.
  const std::string& gate_reason() const { return gate_reason_; }

  /// Room for transfers of up to `bytes`, `landings` of them into one device at once. Fills the
  /// sources. Raises OutOfMemoryError.
  void reserve(size_t bytes, size_t landings);
  /// Host memory for flows between the own device `number` and the host: first touched here, so
  /// that it lies near the processors that this thread runs on. No collective call, so what it
  /// raises (OutOfMemoryError) is the caller's to agree about.
  void reserve_host(int number, size_t bytes, FarEnd kind);

  /// Opens or closes the ways that the transfer takes.
  /// Raises UnsupportedError or OutOfMemoryError with the reason, on every rank, when it cannot be
  /// done on one.
  void prepare(const Transfer& transfer);

  /// Poisons the destinations, then copies every flow `iterations` times. Flows that have not ended
  /// after `limit_s` time out.
  FlowTimes run(size_t iterations, double limit_s);

  /// Does what run() does, and returns the times of every copy. The events of each copy delay what
  /// follows; kernels are launched for each copy.
  TracedCopies trace(size_t copies, double limit_s);

  /// What the last run left where it landed, one finding per flow. `corrupt`: flip the bits of this
  /// element of the data of flow `corrupted_flow` before looking.
  std::vector<Finding> verify(std::optional<size_t> corrupt, size_t corrupted_flow);

  /// Seconds that one dependent load of 8 bytes takes `reader` in memory of `owner`, the mean over
  /// all multiprocessors of the reader.
  double chase(int reader, int owner, size_t accesses, double limit_s);
  /// Half the time of a round trip: seconds until a store of 4 bytes to the other device is seen.
  double ping_pong(int a, int b, size_t rounds, double limit_s);

  int devices() const { return exchange_.devices(); }
  size_t free_memory_bytes() const;
  /// Why checks run on the host; empty when they run on the devices.
  const std::string& checked_on_host() const { return stations_[0]->checker.no_kernels(); }

 private:
  /// The resources of one of a device's concurrent flows.
  struct Lane {
    explicit Lane(Device& device) : stream(device), begin(device), end(device) {}
    Stream stream;
    Event begin, end;
  };

  /// The resources of a device of this process.
  struct Station {
    Station(Device& owner, int number, int count);
    ~Station();
    void release_host() noexcept;

    Device& device;
    Stream service;  ///< for filling and checking
    Event origin;    ///< what the times of a sample count from
    std::vector<std::unique_ptr<Lane>> lanes;
    Checker checker;
    std::byte* pinned = nullptr;
    std::unique_ptr<std::byte[]> pageable;
    FarEnd host_kind = FarEnd::device;
    size_t host_bytes = 0;
  };

  /// A flow of this process with everything looked up, so that the timed loop only calls.
  struct Move {
    Station* runner = nullptr;  ///< null for another process's
    size_t lane = 0;
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    const Kernel* kernel = nullptr;
    const Kernel* delay = nullptr;
    Grid grid;
    unsigned stage_bytes = 0;
  };

  /// A flow of this process in one batch. `begin`: before its first event was recorded; `enqueued`:
  /// when the call of each launch returned; `seen_end`: when the host saw the end of the last copy.
  struct FlowRun {
    size_t flow = 0;
    double call_s = 0;
    Clock::time_point begin, seen_end;
    std::vector<Clock::time_point> enqueued;
    bool late = false;
  };

  Station& station(int number) {
    return *stations_[static_cast<size_t>(number - exchange_.first())];
  }
  /// The kernel called `name`. Raises UnsupportedError: a device that cannot have it may still copy
  /// by its copy engine.
  static const Kernel& kernel_of(Device& device, const char* name);
  std::byte* host_memory(const Flow& flow);
  std::byte* destination(const Flow& flow);
  const std::byte* origin(const Flow& flow);
  void open_way(const Flow& flow);
  void look_up(const Flow& flow, Move& move);
  bool waits_in_calls() const;
  void poison();
  void copy(const Flow& flow, const Move& move, unsigned rounds);
  void begin(const Flow& flow, const Move& move);
  double enqueue(const Flow& flow, const Move& move, size_t iterations);
  void enqueue_all(size_t iterations, bool in_turn, std::vector<FlowRun>& runs);
  void end(const Move& move);
  bool ends_before(Station& station, std::unique_ptr<Lane>& lane, const Deadline& deadline);
  void finish(Station& station);
  Finding look(const Flow& flow, std::optional<size_t> corrupt);
  double elapsed_of(Station& runner, const Deadline& deadline);
  /// Calls `body`, and raises on every rank an error of any rank: UnsupportedError or
  /// OutOfMemoryError.
  void together(const std::function<void()>& body);
  /// Whether it is true on any rank.
  bool any(bool here);
  /// Shares values, for example one per flow: NaN on all ranks but the one that has the value.
  std::vector<double> share(const std::vector<double>& values);

  RankGroup& rank_group_;
  uint32_t seed_;
  Operation content_;
  Exchange exchange_;
  std::vector<std::unique_ptr<Station>> stations_;
  Transfer transfer_;
  std::vector<Move> moves_;  ///< of each flow
  Gate gate_;
  std::string gate_reason_;
  /// In memory that every device of this process reads: a word for failures, and a place for what
  /// kernels write.
  uint32_t* words_ = nullptr;
  static constexpr size_t kFailureWord = 1;
  static constexpr size_t kWords = 64;
  uint32_t mail_value_ = 0;
};

}  // namespace cclmark
