#pragma once

#include <array>
#include <cstdint>
#include <cstring>
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
// interface is, and operations are composed from it here.

namespace cclmark {

/// A library's file with its functions, and which of the optional ones it has.
class Symbols {
 public:
  /// `what`: the library's name in the error if no file of it loads.
  Symbols(const std::string& what, const CclDescription& description, const CclPlaces& places)
      : library_(Library::open(what, candidates(description, places),
                               places.chosen.empty() ? description.variable : "")),
        prefix_(description.prefix) {}

  template <typename R, typename... Arguments>
  void require(R (*&function)(Arguments...), const char* name) const {
    function = library_.require<R(Arguments...)>((prefix_ + name).c_str());
  }

  template <typename R, typename... Arguments>
  void find(R (*&function)(Arguments...), const char* name) {
    function = library_.optional<R(Arguments...)>((prefix_ + name).c_str());
    (function != nullptr ? present_ : absent_).emplace_back(name);
  }

  /// Looks up an operation. Without its function, collectives that require it are missing, see
  /// `lacks`.
  template <typename R, typename... Arguments>
  void find_operation(R (*&function)(Arguments...), const char* name, Collective collective) {
    if (!find_silently(function, name)) lacking_[static_cast<size_t>(collective)] = name;
  }

  /// Looks up a send or a receive, of which exchanges are composed.
  template <typename R, typename... Arguments>
  void find_message(R (*&function)(Arguments...), const char* name) {
    if (!find_silently(function, name)) lacking_message_ = name;
  }

  /// The function without which a collective can be neither called nor composed, with its prefix;
  /// empty where none is missing. For collectives without a function of their own.
  std::string lacks(Collective collective) const {
    const char* name = nullptr;
    switch (cclmark::info(collective).composition) {
      case Composition::exchange:
      case Composition::ring:
      case Composition::turns:
        name = lacking_message_;
        break;
      case Composition::all_reduce:
        name = lacking_[static_cast<size_t>(Collective::all_reduce)];
        break;
      case Composition::nothing:
        name = lacking_[static_cast<size_t>(collective)];
        break;
    }
    return name != nullptr ? prefix_ + name : std::string();
  }

  const std::string& prefix() const { return prefix_; }
  const std::string& path() const { return library_.path(); }
  /// Raises MissingError if the file loads another copy of the device's runtime.
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
  static std::vector<std::string> candidates(const CclDescription& description,
                                             const CclPlaces& places) {
    if (!places.chosen.empty()) return {places.chosen};
    if (const char* chosen = setting(description.variable.c_str())) return {chosen};
    std::vector<std::string> files = description.files;
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

/// The arguments of a library's own function besides its buffers.
struct Seat {
  Device& device;
  int rank;
  int ranks;
  void* comm;
  void* stream;
};

/// A library's names of the functions that all of this kind have, without the prefix.
struct OperationNames {
  const char* all_reduce = "AllReduce";
  const char* all_gather = "AllGather";
  const char* reduce_scatter = "ReduceScatter";
  const char* broadcast = "Broadcast";
  const char* reduce = "Reduce";
  const char* send = "Send";
  const char* recv = "Recv";
};

/// "2.18.5" of 21805, as NCCL writes versions.
inline std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

/// The parts of a library of this kind besides its functions: its file, its numbers of types and
/// reductions, the exchanges that it has functions for. The base of every class that
/// GroupedCommunicator calls.
class GroupedFunctions {
 public:
  using Comm = void*;
  using Result = int;

  const std::string& name() const { return description_.name; }
  const Symbols& symbols() const { return symbols_; }

  /// The library's number of a type. Raises UnsupportedError where it has none.
  int dtype(const Operation& op, const Device&) const {
    int value = description_.dtypes[static_cast<size_t>(op.dtype)];
    if (value != kUnavailable) return value;
    throw UnsupportedError(called_ + " does not support " + std::string(cclmark::name(op.dtype)));
  }

  /// The same of a reduction.
  int reduction(const Operation& op) const {
    int value = description_.reductions[static_cast<size_t>(op.reduction)];
    if (value != kUnavailable) return value;
    throw UnsupportedError(called_ + " has no reduction " +
                           std::string(cclmark::name(op.reduction)));
  }

  const char* own_route(Collective collective) const {
    return own_[static_cast<size_t>(collective)] ? "native" : nullptr;
  }

 protected:
  /// `called`: the library's name in errors; `what`: the same while no file of it is loaded.
  GroupedFunctions(const CclDescription& description, const CclPlaces& places, std::string called,
                   const std::string& what)
      : description_(description),
        symbols_(what, description, places),
        called_(std::move(called)) {}

  /// Looks for the functions that operations are made of. Each is optional.
  template <typename AllReduce, typename AllGather, typename ReduceScatter, typename Broadcast,
            typename Reduce, typename Send, typename Recv>
  void find_operations(const OperationNames& names, AllReduce& all_reduce, AllGather& all_gather,
                       ReduceScatter& reduce_scatter, Broadcast& broadcast, Reduce& reduce,
                       Send& send, Recv& recv) {
    symbols_.find_operation(all_reduce, names.all_reduce, Collective::all_reduce);
    symbols_.find_operation(all_gather, names.all_gather, Collective::all_gather);
    symbols_.find_operation(reduce_scatter, names.reduce_scatter, Collective::reduce_scatter);
    symbols_.find_operation(broadcast, names.broadcast, Collective::broadcast);
    symbols_.find_operation(reduce, names.reduce, Collective::reduce);
    symbols_.find_message(send, names.send);
    symbols_.find_message(recv, names.recv);
  }

  /// Looks for a function that does an exchange in one call.
  template <typename Function>
  void find_own(Function& function, const char* name, Collective collective) {
    symbols_.find(function, name);
    if (function != nullptr) own_[static_cast<size_t>(collective)] = true;
  }

  void describe(CclInfo& info, std::string version, size_t id_bytes) const {
    info.version = std::move(version);
    symbols_.describe(info);
    info.id_bytes = id_bytes;
    for (size_t i = 0; i < kDtypes.size(); ++i) {
      if (description_.dtypes[i] != kUnavailable) info.dtypes.emplace_back(kDtypes[i].name);
    }
    info.reduced_dtypes = info.dtypes;
    for (size_t i = 0; i < kReductions.size(); ++i) {
      if (description_.reductions[i] != kUnavailable) info.reductions.emplace_back(kReductions[i]);
    }
  }

  template <typename Id>
  static std::vector<uint8_t> bytes_of(const Id& id) {
    auto bytes = reinterpret_cast<const uint8_t*>(&id);
    return {bytes, bytes + sizeof(id)};
  }
  template <typename Id>
  static Id id_of(std::span<const uint8_t> bytes) {
    Id id;
    std::memcpy(&id, bytes.data(), sizeof(id));
    return id;
  }

  const CclDescription description_;
  Symbols symbols_;
  std::string called_;

 private:
  std::array<bool, kCollectives.size()> own_{};
};

/// Functions that take their arguments in NCCL's order. `Derived` has `require(code, call, comm)`,
/// which raises Error for a code that is one, and may have other groups and another `stream_of`.
template <typename Derived>
class FunctionsInNcclsOrder : public GroupedFunctions {
 public:
  void all_reduce(const void* from, void* to, size_t count, int dtype, int op, Comm comm,
                  void* stream) const {
    own().require(all_reduce_(from, to, count, dtype, op, comm, Derived::stream_of(stream)),
                  kNames.all_reduce, comm);
  }
  void all_gather(const void* from, void* to, size_t count, int dtype, Comm comm,
                  void* stream) const {
    own().require(all_gather_(from, to, count, dtype, comm, Derived::stream_of(stream)),
                  kNames.all_gather, comm);
  }
  void reduce_scatter(const void* from, void* to, size_t count, int dtype, int op, Comm comm,
                      void* stream) const {
    own().require(reduce_scatter_(from, to, count, dtype, op, comm, Derived::stream_of(stream)),
                  kNames.reduce_scatter, comm);
  }
  void broadcast(const void* from, void* to, size_t count, int dtype, int root, Comm comm,
                 void* stream) const {
    own().require(broadcast_(from, to, count, dtype, root, comm, Derived::stream_of(stream)),
                  kNames.broadcast, comm);
  }
  void reduce(const void* from, void* to, size_t count, int dtype, int op, int root, Comm comm,
              void* stream) const {
    own().require(reduce_(from, to, count, dtype, op, root, comm, Derived::stream_of(stream)),
                  kNames.reduce, comm);
  }
  void send(const void* from, size_t count, int dtype, int peer, Comm comm, void* stream) const {
    own().require(send_(from, count, dtype, peer, comm, Derived::stream_of(stream)), kNames.send,
                  comm);
  }
  void recv(void* to, size_t count, int dtype, int peer, Comm comm, void* stream) const {
    own().require(recv_(to, count, dtype, peer, comm, Derived::stream_of(stream)), kNames.recv,
                  comm);
  }
  void group_start(Comm comm) const { own().require(group_start_(), "GroupStart", comm); }
  void group_end(Comm comm) const { own().require(group_end_(), "GroupEnd", comm); }

  /// The stream argument for the library.
  static void* stream_of(void* stream) { return stream; }

 protected:
  using GroupedFunctions::GroupedFunctions;

  void find_operations() {
    GroupedFunctions::find_operations(kNames, all_reduce_, all_gather_, reduce_scatter_, broadcast_,
                                      reduce_, send_, recv_);
  }
  void require_groups() {
    symbols_.require(group_start_, "GroupStart");
    symbols_.require(group_end_, "GroupEnd");
  }

 private:
  static constexpr OperationNames kNames{};

  const Derived& own() const { return static_cast<const Derived&>(*this); }

  Result (*group_start_)() = nullptr;
  Result (*group_end_)() = nullptr;
  Result (*all_reduce_)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*all_gather_)(const void*, void*, size_t, int, Comm, void*);
  Result (*reduce_scatter_)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*broadcast_)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*reduce_)(const void*, void*, size_t, int, int, int, Comm, void*);
  Result (*send_)(const void*, size_t, int, int, Comm, void*);
  Result (*recv_)(void*, size_t, int, int, Comm, void*);
};

/// The route of an operation that the library lacks as a function. `exchange`: the route of
/// exchanges.
inline const char* composed_of(Composition composition, const char* exchange) {
  switch (composition) {
    case Composition::nothing:
      return "native";
    case Composition::exchange:
    case Composition::ring:
      return exchange;
    case Composition::turns:
      return "send and recv in turn";
    case Composition::all_reduce:
      return "all_reduce of 4 bytes";
  }
  return "";
}

/// The route of an operation in a library of this kind: native, or its composition; empty if a
/// function is missing.
template <typename Functions>
const char* grouped_route(const Functions& api, Collective collective) {
  if (const char* own = api.own_route(collective)) return own;
  if (!api.symbols().lacks(collective).empty()) return "";
  return composed_of(info(collective).composition, "grouped send/recv");
}

/// `Functions` is a GroupedFunctions, with its operations in the order of NCCL's arguments, each
/// raising Error where the library returns one:
///   all_reduce, all_gather, reduce_scatter, broadcast, reduce, send, recv;
///   group_start, group_end: of a communicator, where the library wants to know;
///   bind: the call that does an exchange by a function of the library's own;
///   join, leave, check: a communicator's beginning (where the library is of these devices), end
///   and failures behind our back; join_with, where a communicator can have options.
template <typename Functions>
class GroupedCommunicator : public Communicator {
 public:
  GroupedCommunicator(const Functions& api, Device& device, std::span<const uint8_t> id,
                      RankGroup& rank_group)
      : GroupedCommunicator(api, device, rank_group,
                            api.join(device, id, rank_group.rank(), rank_group.size())) {}
  /// With options, for `Functions` that have join_with.
  GroupedCommunicator(const Functions& api, Device& device, std::span<const uint8_t> id,
                      RankGroup& rank_group, const CommunicatorOptions& options)
      : GroupedCommunicator(
            api, device, rank_group,
            api.join_with(device, id, rank_group.rank(), rank_group.size(), options)) {}

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
      case Collective::sendrecv:
      case Collective::send:
      case Collective::ping_pong:
      case Collective::barrier:
        return bind_composed(op, dtype, stream);
    }
    throw Error("unknown collective");
  }

  std::string route(const Operation& op) const override {
    return grouped_route(api_, op.collective);
  }

  void begin_group() override { api_.group_start(comm_); }
  void end_group() override { api_.group_end(comm_); }

  std::string no_registration(Registration) const override {
    return "registered buffers are not supported with " + api_.name() + ": use --register none";
  }

  void check() override { api_.check(comm_); }

 protected:
  const Functions& api_;
  Device& device_;
  const int rank_;
  const int size_;
  void* const comm_;

 private:
  GroupedCommunicator(const Functions& api, Device& device, RankGroup& rank_group, void* joined)
      : api_(api),
        device_(device),
        rank_(rank_group.rank()),
        size_(rank_group.size()),
        comm_(joined) {}

  /// What goes to a peer and comes from it: elements, and where they begin in bytes.
  struct Part {
    int peer;
    size_t sent, from, received, to;
  };

  template <typename Body>
  void grouped(const Body& body) const {
    in_group([this] { api_.group_start(comm_); }, body, [this] { api_.group_end(comm_); });
  }

  std::unique_ptr<Call> bind_composed(const Operation& op, int dtype, void* stream) {
    switch (info(op.collective).composition) {
      case Composition::exchange:
        return bind_exchange(op, dtype, stream);
      case Composition::ring:
        return bind_ring_shift(op, dtype, stream);
      case Composition::turns:
        return bind_ping_pong(op, dtype, stream);
      case Composition::all_reduce:
        return bind_barrier(stream);
      case Composition::nothing:
        break;
    }
    throw UnsupportedError(api_.symbols().path() + " has no function for " +
                           std::string(cclmark::name(op.collective)));
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

/// Besides the requirements of GroupedCommunicator, `Functions` have describe (version, sizes,
/// types) and make_id. `CommunicatorType` is a GroupedCommunicator of them, or derived from one.
template <typename Functions, typename CommunicatorType = GroupedCommunicator<Functions>>
class GroupedLibrary final : public Ccl {
 public:
  /// `arguments` construct the functions.
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
                                     RankGroup& rank_group) override {
    require_size_of(id);
    return std::make_unique<CommunicatorType>(api_, device, id, rank_group);
  }

  std::unique_ptr<Communicator> join_with(Device& device, std::span<const uint8_t> id,
                                          RankGroup& rank_group,
                                          const CommunicatorOptions& options) override {
    if constexpr (requires { &Functions::join_with; }) {
      require_size_of(id);
      return std::make_unique<CommunicatorType>(api_, device, id, rank_group, options);
    }
    return Ccl::join_with(device, id, rank_group, options);
  }

 private:
  void require_size_of(std::span<const uint8_t> id) const {
    if (id.size() != info_.id_bytes) throw Error("the communicator id has the wrong size");
  }

  Functions api_;
  CclInfo info_;
};

}  // namespace cclmark
