#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ccl/description.hpp"
#include "ccl/host_exchange.hpp"
#include "ccl/planned_step.hpp"
#include "ccl/slot_recorder.hpp"
#include "core/memory_block.hpp"
#include "core/operation.hpp"
#include "core/rank_group.hpp"
#include "device/device.hpp"

namespace cclmark {

/// An operation bound to a library's function and a stream, for the timed loop: one indirect call,
/// no lookup and no allocation.
class Call {
 public:
  virtual ~Call() = default;
  /// Called once for buffers before the operation is first timed on them, to create resources.
  virtual void prepare(const void*, void*) {}
  /// Enqueues the operation. Raises Error with the library's code and text: RefusedError if the
  /// library refused the arguments, UnsupportedError if it reports that it does not support them.
  virtual void enqueue(const void* send, void* receive) = 0;
  /// How the data moves, for a library of the engine itself; empty for other libraries.
  virtual std::string kernel() const { return ""; }
  /// The steps of this rank, in the order of their execution, for a library of the engine itself;
  /// empty for other libraries.
  virtual std::vector<PlannedStep> steps() const { return {}; }
};

/// A connection in one direction: data of this rank to rank `to`.
struct Connection {
  int to;
  std::string transport;
};

/// Options of one communicator, by the names of the library's configuration, with their values.
using CommunicatorOptions = std::vector<std::pair<std::string, std::string>>;

/// How buffers are registered with the library before use.
enum class Registration : uint8_t { none, local, symmetric };

/// What allocates buffers. Libraries that register buffers by themselves, as NCCL does those of
/// captured graphs, do so only with memory that other processes can map.
enum class MemoryKind : uint8_t {
  plain,    ///< the runtime's allocator (cudaMalloc)
  library,  ///< the library's allocator (ncclMemAlloc)
  mapped,   ///< physical memory mapped at a reserved address (CUDA's VMM)
  foreign,  ///< a MemorySource
};

/// An allocator outside of the engine. Raises OutOfMemoryError, UnsupportedError.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
};

/// How the buffers of messages are allocated and registered. `source`: of foreign memory.
struct BufferKind {
  Registration registration = Registration::none;
  MemoryKind memory = MemoryKind::plain;
  std::shared_ptr<MemorySource> source = nullptr;
  bool operator==(const BufferKind&) const = default;
};

/// A library's description of itself.
struct CclInfo {
  std::string name;
  std::string version;
  std::string path;
  /// Optional abilities that this library has and lacks, by name.
  std::vector<std::string> capabilities;
  std::vector<std::string> missing;
  /// The size of the id that rank 0 sends to the others; 0 without an id.
  size_t id_bytes = 0;
  /// Element types that it moves, those that it reduces, and its reductions.
  std::vector<std::string> dtypes, reduced_dtypes, reductions;
  /// The route of each operation, by its name: "native", or its composition.
  std::vector<std::pair<std::string, std::string>> routes;
};

/// A library's stream, on which its operations run instead of the one that bind() received. Marks
/// are numbered from 0; recording one again replaces it.
class OwnStream {
 public:
  virtual ~OwnStream() = default;
  /// Records a mark behind the operations so far.
  virtual void record(size_t mark) = 0;
  /// The time between two marks, once the stream is idle. NaN if the library measures no times.
  virtual double elapsed_s(size_t from, size_t to) = 0;
  /// Returns when the work on the stream is complete. It blocks as long as the library does: only
  /// the supervision of the rank detects that it hangs.
  virtual void synchronize() = 0;
};

/// A library's group of ranks, and this process's place in it.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// Binds an operation. Raises UnsupportedError with the reason when the library cannot do it.
  virtual std::unique_ptr<Call> bind(const Operation& operation, void* stream) = 0;
  /// The route of the operation: "native", or its composition.
  virtual std::string route(const Operation& operation) const = 0;

  /// Calls between these two may be launched as one. The first raises UnsupportedError if the
  /// library does not support groups.
  virtual void begin_group() {
    throw UnsupportedError("this library does not support groups of operations");
  }
  virtual void end_group() {}

  /// Allocates memory of a kind that is not foreign on `device`, which is the communicator's.
  /// Raises OutOfMemoryError, UnsupportedError.
  virtual void* allocate(Device& device, size_t bytes, MemoryKind memory) {
    if (memory == MemoryKind::plain) return device.allocate(bytes);
    if (memory == MemoryKind::mapped) return device.allocate_mapped(bytes);
    throw UnsupportedError(
        "this library has no allocator that is known: use --memory plain or leave it out");
  }
  /// Releases what allocate() returned.
  virtual void release(Device& device, void* memory, MemoryKind) noexcept {
    device.release(memory);
  }
  /// Where allocate() puts memory of that device, which is the communicator's.
  virtual MemoryPlace place_of_buffers(const Device& device) const {
    return place_of_allocations(device);
  }
  /// Why the library cannot register buffers this way; empty when it can.
  virtual std::string no_registration(Registration) const {
    return "registered buffers are not supported with this library: use --register none";
  }
  /// Registers memory with the library. A collective call if the registration is symmetric. Raises
  /// UnsupportedError.
  virtual void register_memory(void*, size_t, Registration) {}
  virtual void deregister_memory(void*, Registration) noexcept {}

  /// The stream that the operations run on if it is not the one of bind(), else null.
  virtual OwnStream* own_stream() { return nullptr; }
  /// Whether a call returns only when its work is done, so that events around it measure nothing.
  virtual bool blocking() const { return false; }
  /// Why calls cannot be captured in a graph and replayed; empty when they can.
  virtual std::string no_graphs() const {
    return blocking() ? "calls of this library cannot be captured in a graph" : "";
  }

  /// How data of this rank reach the others, for a library of the engine itself; empty for other
  /// libraries.
  virtual std::vector<Connection> connections() const { return {}; }
  /// The library's settings by name, as far as it has a function that reports them.
  virtual std::vector<std::pair<std::string, std::string>> parameters() const { return {}; }

  /// From here on records what this rank does with slots, if the library is one of the engine that
  /// has them; until it is called without a recorder. Not between the calls of an operation.
  virtual SlotTimes record_slots(const SlotTap&) { return SlotTimes::none; }

  /// Must be called by all ranks after their last use.
  virtual void leave() {}

  /// Raises Error if the library failed asynchronously; polled while waiting.
  virtual void check() {}

  /// The memory of this communicator, as far as the engine has allocated or mapped it itself.
  virtual std::vector<MemoryBlock> memory_blocks() const { return {}; }
  /// What the library reports about its memory. Raises UnsupportedError with the reason if it
  /// reports nothing.
  virtual MemoryStatement memory_statement() const {
    throw UnsupportedError("the library has no function that reports its memory");
  }
};

/// Polls until the work on `stream` is complete, after that on a stream of the library's own.
/// Periodically checks for failures of the library and of other ranks, and propagates their errors.
inline void wait_until_idle(Device& device, void* stream, Communicator& library,
                            const RankGroup& rank_group) {
  if (OwnStream* own = library.own_stream()) own->synchronize();
  wait_until_idle(device, stream, [&] {
    library.check();
    rank_group.check(RankGroup::kDevice);
  });
}

/// Calls `body` between `begin` and `end`. An error in `body` ends the group as well: otherwise
/// later calls would join it and never be launched.
template <typename Begin, typename Body, typename End>
void in_group(const Begin& begin, const Body& body, const End& end) {
  begin();
  try {
    body();
  } catch (...) {
    try {
      end();
    } catch (const Error&) {
      // The first error is more informative than the error of its group.
    }
    throw;
  }
  end();
}

/// Raises UnsupportedError for a ping-pong among more or fewer than two ranks.
inline void require_two_ranks(int ranks) {
  if (ranks != 2) throw UnsupportedError("ping_pong requires two ranks");
}

/// A loaded library.
class Ccl {
 public:
  virtual ~Ccl() = default;
  virtual const CclInfo& info() const = 0;
  /// Opaque bytes that rank 0 creates and every rank requires to join.
  virtual std::vector<uint8_t> make_id(int ranks) = 0;
  /// Starts the library in all ranks of a run: a collective call, required before some of them join
  /// a communicator of their own. `device`: this rank's. Raises Error, MissingError if the library
  /// does not have these ranks, UnsupportedError if it cannot access memory of the device.
  virtual void start(RankGroup&, const Device& /*device*/) {}
  /// Joins the group: a collective call. It blocks as long as the library does; the launcher
  /// enforces the deadline. `rank_group` consists of the joining ranks.
  virtual std::unique_ptr<Communicator> join(Device& device, std::span<const uint8_t> id,
                                             RankGroup& rank_group) = 0;
  /// The same with options of this communicator. Raises UnsupportedError if the library has none,
  /// MissingError if this version lacks one of them, UsageError for a wrong value.
  virtual std::unique_ptr<Communicator> join_with(Device&, std::span<const uint8_t>, RankGroup&,
                                                  const CommunicatorOptions&) {
    throw UnsupportedError(info().name + " has no options of a communicator that are known");
  }
  /// Messages between the ranks of `rank_group`, in host memory. A collective call. Raises Error,
  /// MissingError if the library does not have these ranks.
  virtual std::unique_ptr<HostExchange> open_host_exchange(RankGroup&) {
    throw UnsupportedError(info().name + " does not support messages between ranks");
  }
};

/// Where to look for a library.
struct CclPlaces {
  /// The user's file; if set, no other file is tried.
  std::string chosen;
  /// Files that Python packages carry, tried before the system's.
  std::vector<std::string> wheels;
};

/// The kinds of interfaces that the engine has code for, see CclDescription::shape.
std::vector<std::string_view> known_shapes();

/// Loads a library.
/// Raises MissingError with the files that were tried, Error for an unknown shape.
std::unique_ptr<Ccl> open_ccl(const CclDescription& description, const CclPlaces& places);

}  // namespace cclmark
