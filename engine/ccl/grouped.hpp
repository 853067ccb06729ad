#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ccl/call_of.hpp"
#include "ccl/communicator.hpp"
#include "ccl/one_runtime.hpp"
#include "collective/table.hpp"
#include "core/library.hpp"

// What libraries have in common that work as NCCL does: calls on a stream, and groups in which
// sends and receives do not wait for each other. A file of each, or of each family, says what its
// interface is, and here is how operations are made of it.

namespace cclmark {

/// A file of functions that begin with `prefix`, and which of the optional ones it has.
class Symbols {
 public:
  /// `variable` names the environment variable that chooses another file.
  Symbols(const std::string& what, const CclPlaces& places, const char* variable,
          std::vector<std::string> files, std::string prefix)
      : library_(Library::open(what, candidates(places, variable, std::move(files)),
                               places.chosen.empty() ? variable : "")),
        prefix_(std::move(prefix)) {}

  template <typename R, typename... Arguments>
  void require(R (*&function)(Arguments...), const char* name) const {
    function = library_.require<R(Arguments...)>((prefix_ + name).c_str());
  }

  template <typename R, typename... Arguments>
  void find(R (*&function)(Arguments...), const char* name) {
    function = library_.optional<R(Arguments...)>((prefix_ + name).c_str());
    (function != nullptr ? present_ : absent_).emplace_back(name);
  }

  /// An operation of the library. Without its function those are missing that need it, see `lacks`.
  template <typename R, typename... Arguments>
  void find_operation(R (*&function)(Arguments...), const char* name, Collective collective) {
    if (!find_silently(function, name)) lacking_[static_cast<size_t>(collective)] = name;
  }

  /// A send or a receive, of which exchanges are composed.
  template <typename R, typename... Arguments>
  void find_message(R (*&function)(Arguments...), const char* name) {
    if (!find_silently(function, name)) lacking_message_ = name;
  }

  /// The function without which a collective can be neither called nor composed, with its prefix;
  /// empty where none is missing. For collectives without a function of their own.
  std::string lacks(Collective collective) const {
    const char* name = nullptr;
    switch (collective) {
      case Collective::alltoall:
      case Collective::alltoallv:
      case Collective::gather:
      case Collective::scatter:
      case Collective::sendrecv:
      case Collective::ping_pong:
        name = lacking_message_;
        break;
      case Collective::barrier:
        name = lacking_[static_cast<size_t>(Collective::all_reduce)];
        break;
      default:
        name = lacking_[static_cast<size_t>(collective)];
    }
    return name != nullptr ? prefix_ + name : std::string();
  }

  const std::string& prefix() const { return prefix_; }
  const std::string& path() const { return library_.path(); }
  /// Raises MissingError where the file brings another copy of the device's runtime.
  void require_runtime_of(const Device& device) const {
    require_one_runtime(device.info(), library_.path());
  }
  /// Whether the file has a function of this whole name.
  bool have(const std::string& name) const {
    return library_.optional<void>(name.c_str()) != nullptr;
  }

  void describe(CclInfo& info) const {
    info.path = library_.path();
    info.capabilities = present_;
    info.missing = absent_;
  }

 private:
  static std::vector<std::string> candidates(const CclPlaces& places, const char* variable,
                                             std::vector<std::string> files) {
    if (!places.chosen.empty()) return {places.chosen};
    if (const char* chosen = setting(variable)) return {chosen};
    files.insert(files.begin(), places.wheels.begin(), places.wheels.end());
    return files;
  }

  template <typename R, typename... Arguments>
  bool find_silently(R (*&function)(Arguments...), const char* name) {
    function = library_.optional<R(Arguments...)>((prefix_ + name).c_str());
    if (function == nullptr) absent_.emplace_back(name);
    return function != nullptr;
  }

  Library library_;
  std::string prefix_;
  std::vector<std::string> present_, absent_;
  std::array<const char*, kCollectives.size()> lacking_{};
  const char* lacking_message_ = nullptr;
};

/// What a function of its own needs besides its buffers.
struct Seat {
  Device& device;
  int rank;
  int ranks;
  void* comm;
  void* stream;
};

/// How an operation is done by a library of this kind: natively, or what it is composed of; empty
/// where a function is missing.
template <typename Functions>
const char* grouped_route(const Functions& api, Collective collective) {
  if (const char* own = api.own_route(collective)) return own;
  if (!api.symbols().lacks(collective).empty()) return "";
  switch (collective) {
    case Collective::alltoall:
    case Collective::alltoallv:
    case Collective::gather:
    case Collective::scatter:
    case Collective::sendrecv:
      return "grouped send/recv";
    case Collective::ping_pong:
      return "send and recv in turn";
    case Collective::barrier:
      return "all_reduce of 4 bytes";
    default:
      return "native";
  }
}

/// `Functions` are a library's own, with their arguments in the order of NCCL's, each raising Error
/// where the library returns one:
///   all_reduce, all_gather, reduce_scatter, broadcast, reduce, send, recv;
///   symbols: the file's functions;
///   group_start, group_end: of a communicator, where the library wants to know;
///   dtype, reduction: its numbers for those of an operation on a device, or UnsupportedError;
///   own_route, bind: how it does an exchange by functions of its own, nullptr where it has none,
///   and the call that does it; join, leave, check: a communicator's beginning (where the library
///   is of these devices), end and failures behind our back.
template <typename Functions>
class GroupedCommunicator : public Communicator {
 public:
  GroupedCommunicator(const Functions& api, Device& device, std::span<const uint8_t> id, Team& team)
      : api_(api),
        device_(device),
        rank_(team.rank()),
        size_(team.size()),
        comm_(api.join(device, id, rank_, size_)) {}

  ~GroupedCommunicator() override { api_.leave(comm_); }

  std::unique_ptr<Call> bind(const Operation& op, void* stream) override {
    int dtype = api_.dtype(op, device_);
    int reduction = info(op.collective).reduces ? api_.reduction(op) : 0;
    if (api_.own_route(op.collective) != nullptr) {
      return api_.bind(op, dtype, Seat{device_, rank_, size_, comm_, stream});
    }
    if (std::string missing = api_.symbols().lacks(op.collective); !missing.empty()) {
      throw UnsupportedError(api_.symbols().path() + " has no " + missing);
    }
    switch (op.collective) {
      case Collective::all_reduce:
        return make_call([=, this](const void* s, void* d) {
          api_.all_reduce(s, d, op.count, dtype, reduction, comm_, stream);
        });
      case Collective::all_gather:
        return make_call([=, this](const void* s, void* d) {
          api_.all_gather(s, d, op.count, dtype, comm_, stream);
        });
      case Collective::reduce_scatter:
        return make_call([=, this](const void* s, void* d) {
          api_.reduce_scatter(s, d, op.count, dtype, reduction, comm_, stream);
        });
      case Collective::broadcast:
        return make_call([=, this](const void* s, void* d) {
          api_.broadcast(s, d, op.count, dtype, op.root, comm_, stream);
        });
      case Collective::reduce:
        return make_call([=, this](const void* s, void* d) {
          api_.reduce(s, d, op.count, dtype, reduction, op.root, comm_, stream);
        });
      case Collective::alltoall:
      case Collective::alltoallv:
      case Collective::gather:
      case Collective::scatter:
        return bind_exchange(op, dtype, stream);
      case Collective::sendrecv:
        return bind_ring_shift(op, dtype, stream);
      case Collective::ping_pong:
        return bind_ping_pong(op, dtype, stream);
      case Collective::barrier:
        return bind_barrier(stream);
    }
    throw Error("unknown collective");
  }

  std::string route(const Operation& op) const override {
    return grouped_route(api_, op.collective);
  }

  void begin_group() override { api_.group_start(comm_); }
  void end_group() override { api_.group_end(comm_); }

  void* allocate(size_t bytes, Registration registration) override {
    if (registration != Registration::none) {
      throw UnsupportedError("buffers are not registered with " + std::string(api_.name()) +
                             " here: --register none");
    }
    return device_.allocate(bytes);
  }
  void enroll(void*, size_t, Registration) override {}
  void release(void* memory, Registration) noexcept override { device_.release(memory); }

  void check() override { api_.check(comm_); }

 protected:
  const Functions& api_;
  Device& device_;
  const int rank_;
  const int size_;
  void* const comm_;

 private:
  /// What goes to a peer and comes from it: elements, and where they begin in bytes.
  struct Part {
    int peer;
    size_t sent, from, received, to;
  };

  template <typename Body>
  void grouped(const Body& body) const {
    in_group([this] { api_.group_start(comm_); }, body, [this] { api_.group_end(comm_); });
  }

  /// Any exchange as one group of sends and receives, as users of such libraries write it.
  std::unique_ptr<Call> bind_exchange(Operation op, int dtype, void* stream) {
    op.matrix = matrix_of(op, size_);
    UnevenParts all(op, rank_, size_);
    size_t width = size_bytes(op.dtype);
    std::vector<Part> parts;
    for (size_t i = 0; i < static_cast<size_t>(size_); ++i) {
      if (all.send_counts[i] == 0 && all.receive_counts[i] == 0) continue;
      parts.push_back({static_cast<int>(i), all.send_counts[i], all.send_offsets[i] * width,
                       all.receive_counts[i], all.receive_offsets[i] * width});
    }
    return make_call([=, this](const void* s, void* d) {
      auto source = static_cast<const std::byte*>(s);
      auto to = static_cast<std::byte*>(d);
      grouped([&] {
        for (const Part& part : parts) {
          if (part.sent > 0) {
            api_.send(source + part.from, part.sent, dtype, part.peer, comm_, stream);
          }
          if (part.received > 0) {
            api_.recv(to + part.to, part.received, dtype, part.peer, comm_, stream);
          }
        }
      });
    });
  }

  /// To the right, from the left: the send comes first on every rank, as programs have it.
  std::unique_ptr<Call> bind_ring_shift(const Operation& op, int dtype, void* stream) {
    int right = (rank_ + 1) % size_;
    int left = (rank_ + size_ - 1) % size_;
    return make_call([=, this, count = op.count](const void* s, void* d) {
      grouped([&] {
        api_.send(s, count, dtype, right, comm_, stream);
        api_.recv(d, count, dtype, left, comm_, stream);
      });
    });
  }

  /// There and back: each rank's second call waits on its stream for the first.
  std::unique_ptr<Call> bind_ping_pong(const Operation& op, int dtype, void* stream) {
    require_two_ranks(size_);
    return make_call([=, this, count = op.count, peer = 1 - rank_](const void* s, void* d) {
      if (rank_ == 0) api_.send(s, count, dtype, peer, comm_, stream);
      api_.recv(d, count, dtype, peer, comm_, stream);
      if (rank_ != 0) api_.send(s, count, dtype, peer, comm_, stream);
    });
  }

  std::unique_ptr<Call> bind_barrier(void* stream) {
    if (barrier_memory_.data() == nullptr) barrier_memory_ = Buffer(device_, sizeof(float));
    const Operation sum_of_floats;
    int dtype = api_.dtype(sum_of_floats, device_);
    int sum = api_.reduction(sum_of_floats);
    void* word = barrier_memory_.data();
    return make_call([=, this](const void*, void*) {
      api_.all_reduce(word, word, 1, dtype, sum, comm_, stream);
    });
  }

  Buffer barrier_memory_;
};

/// Besides what GroupedCommunicator wants of them, `Functions` have name, describe (version, sizes,
/// types) and make_id. `Member` is a GroupedCommunicator of them, or what is made of one.
template <typename Functions, typename Member = GroupedCommunicator<Functions>>
class GroupedLibrary final : public Ccl {
 public:
  /// Takes what the functions are made of.
  template <typename... Arguments>
  explicit GroupedLibrary(const Arguments&... arguments) : api_(arguments...) {
    info_.name = api_.name();
    api_.describe(info_);
    for (size_t i = 0; i < kCollectives.size(); ++i) {
      const char* route = grouped_route(api_, static_cast<Collective>(i));
      if (*route != '\0') info_.routes.emplace_back(kCollectives[i], route);
    }
  }

  const CclInfo& info() const override { return info_; }
  std::vector<uint8_t> make_id(int) override { return api_.make_id(); }

  std::unique_ptr<Communicator> join(Device& device, std::span<const uint8_t> id,
                                     Team& team) override {
    if (id.size() != info_.id_bytes) throw Error("the communicator id has the wrong size");
    return std::make_unique<Member>(api_, device, id, team);
  }

 private:
  Functions api_;
  CclInfo info_;
};

}  // namespace cclmark
