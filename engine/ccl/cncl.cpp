// CNCL, Cambricon's collective library: ids of 136 bytes by pointer, communicators made in lists,
// numbers of its own for types, and neither averages nor 64-bit or 8-bit floats.

#include <array>
#include <cstring>
#include <limits>

#include "ccl/grouped.hpp"

namespace cclmark {
namespace {

constexpr const char* kVariable = "CCLMARK_CNCL_LIBRARY";

struct CliqueId {
  char data[128];
  uint64_t hash;
};
static_assert(sizeof(CliqueId) == 136);
using Comm = void*;
using Result = int;

constexpr Result kInProgress = 0x06;
constexpr Result kNotSupported = 0x11;
constexpr int kUnavailable = -1;

/// By Dtype.
constexpr std::array<int, kDtypes.size()> kTypes = {
    0x20, 0x30, 0x22, 0x32, 0x23, 0x33, 0x10, 0x12, kUnavailable, 0x11, kUnavailable, kUnavailable};
/// By Reduction.
constexpr std::array<int, kReductions.size()> kOperations = {0, 1, 2, 3, kUnavailable};

class Cncl {
 public:
  const char* name() const { return "cncl"; }

  explicit Cncl(const CclPlaces& places)
      : symbols_("Cambricon's CNCL", places, kVariable,
                 {"libcncl.so", "/usr/local/neuware/lib64/libcncl.so"}, "cncl") {
    symbols_.require(get_clique_id_, "GetCliqueId");
    symbols_.require(init_comms_, "InitComms");
    symbols_.require(destroy_comms_, "DestroyComms");
    symbols_.require(get_error_string_, "GetErrorStr");
    symbols_.require(get_async_error_, "GetCommAsyncError");
    symbols_.require(get_version_, "GetLibVersion");
    symbols_.require(group_start_, "GroupStart");
    symbols_.require(group_end_, "GroupEnd");
    symbols_.find_operation(all_reduce_, "AllReduce", Collective::all_reduce);
    symbols_.find_operation(all_gather_, "AllGather", Collective::all_gather);
    symbols_.find_operation(reduce_scatter_, "ReduceScatter", Collective::reduce_scatter);
    symbols_.find_operation(broadcast_, "Broadcast", Collective::broadcast);
    symbols_.find_operation(reduce_, "Reduce", Collective::reduce);
    symbols_.find_message(send_, "Send");
    symbols_.find_message(recv_, "Recv");
    symbols_.find(alltoall_, "AlltoAll");
    symbols_.find(alltoallv_, "AlltoAllv");
  }

  void describe(CclInfo& info) const {
    int major = 0, minor = 0, patch = 0;
    require(get_version_(&major, &minor, &patch), "GetLibVersion");
    info.version =
        std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
    symbols_.describe(info);
    info.id_bytes = sizeof(CliqueId);
    for (size_t i = 0; i < kDtypes.size(); ++i) {
      if (kTypes[i] != kUnavailable) info.dtypes.emplace_back(kDtypes[i].name);
    }
    info.reduced_dtypes = info.dtypes;
    info.reductions = {"sum", "prod", "max", "min"};
  }

  const Symbols& symbols() const { return symbols_; }

  std::vector<uint8_t> make_id() const {
    CliqueId id{};
    require(get_clique_id_(&id), "GetCliqueId");
    auto bytes = reinterpret_cast<const uint8_t*>(&id);
    return {bytes, bytes + sizeof(id)};
  }

  Comm join(Device& device, std::span<const uint8_t> bytes, int rank, int ranks) const {
    symbols_.require_runtime_of(device);
    CliqueId id;
    std::memcpy(&id, bytes.data(), sizeof(id));
    Comm comm = nullptr;
    int index = device.info().index;
    require(init_comms_(&comm, 1, &index, &rank, ranks, &id), "InitComms");
    return comm;
  }
  void leave(Comm comm) const noexcept { destroy_comms_(&comm, 1); }
  void check(Comm comm) const {
    Result state = get_async_error_(comm);
    if (state != kInProgress) require(state, "GetCommAsyncError");
  }

  int dtype(const Operation& op, const Device&) const {
    int value = kTypes[static_cast<size_t>(op.dtype)];
    if (value == kUnavailable)
      throw UnsupportedError("CNCL has no " + std::string(cclmark::name(op.dtype)));
    return value;
  }
  int reduction(const Operation& op) const {
    int value = kOperations[static_cast<size_t>(op.reduction)];
    if (value == kUnavailable) {
      throw UnsupportedError("CNCL has no reduction " + std::string(cclmark::name(op.reduction)));
    }
    return value;
  }

  void all_reduce(const void* from, void* to, size_t count, int dtype, int op, Comm comm,
                  void* queue) const {
    require(all_reduce_(from, to, count, dtype, op, comm, queue), "AllReduce");
  }
  void all_gather(const void* from, void* to, size_t count, int dtype, Comm comm,
                  void* queue) const {
    require(all_gather_(from, to, count, dtype, comm, queue), "AllGather");
  }
  void reduce_scatter(const void* from, void* to, size_t count, int dtype, int op, Comm comm,
                      void* queue) const {
    require(reduce_scatter_(from, to, count, dtype, op, comm, queue), "ReduceScatter");
  }
  void broadcast(const void* from, void* to, size_t count, int dtype, int root, Comm comm,
                 void* queue) const {
    require(broadcast_(from, to, count, dtype, root, comm, queue), "Broadcast");
  }
  void reduce(const void* from, void* to, size_t count, int dtype, int op, int root, Comm comm,
              void* queue) const {
    require(reduce_(from, to, count, dtype, op, root, comm, queue), "Reduce");
  }
  void send(const void* from, size_t count, int dtype, int peer, Comm comm, void* queue) const {
    require(send_(const_cast<void*>(from), count, dtype, peer, comm, queue), "Send");
  }
  void recv(void* to, size_t count, int dtype, int peer, Comm comm, void* queue) const {
    require(recv_(to, count, dtype, peer, comm, queue), "Recv");
  }
  void group_start(Comm) const { require(group_start_(), "GroupStart"); }
  void group_end(Comm) const { require(group_end_(), "GroupEnd"); }

  const char* own_route(Collective collective) const {
    bool native = (collective == Collective::alltoall && alltoall_ != nullptr) ||
                  (collective == Collective::alltoallv && alltoallv_ != nullptr);
    return native ? "native" : nullptr;
  }

  std::unique_ptr<Call> bind(const Operation& op, int dtype, const Seat& seat) const {
    if (op.collective == Collective::alltoallv) return bind_alltoallv(op, dtype, seat);
    return make_call([=, this, count = op.count](const void* s, void* d) {
      require(alltoall_(s, d, count, dtype, seat.comm, seat.stream), "AlltoAll");
    });
  }

 private:
  /// The library takes an address, a count of 32 bits and a type for each part.
  std::unique_ptr<Call> bind_alltoallv(const Operation& op, int dtype, const Seat& seat) const {
    // Ranks' counts differ: what one cannot do, none is to begin.
    for (int rank = 0; rank < seat.ranks; ++rank)
      narrow(UnevenParts(op, rank, seat.ranks).send_counts);
    UnevenParts parts(op, seat.rank, seat.ranks);
    size_t ranks = parts.send_counts.size();
    return make_call([=, this, sent = narrow(parts.send_counts), got = narrow(parts.receive_counts),
                      types = std::vector<int>(ranks, dtype),
                      from = std::vector<const void*>(ranks), to = std::vector<void*>(ranks),
                      width = size_bytes(op.dtype)](const void* s, void* d) mutable {
      for (size_t i = 0; i < ranks; ++i) {
        from[i] = static_cast<const std::byte*>(s) + parts.send_offsets[i] * width;
        to[i] = static_cast<std::byte*>(d) + parts.receive_offsets[i] * width;
      }
      require(alltoallv_(from.data(), sent.data(), types.data(), to.data(), got.data(),
                         types.data(), seat.comm, seat.stream),
              "AlltoAllv");
    });
  }

  static std::vector<uint32_t> narrow(const std::vector<size_t>& counts) {
    for (size_t count : counts) {
      if (count <= std::numeric_limits<uint32_t>::max()) continue;
      throw UnsupportedError("cnclAlltoAllv counts elements in 32 bits");
    }
    return {counts.begin(), counts.end()};
  }

  void require(Result code, const char* call) const {
    if (code == 0) [[likely]]
      return;
    const char* text = get_error_string_(code);
    std::string words =
        Error::describe(symbols_.prefix() + call, code, text != nullptr ? text : "");
    // What it does not reduce differs between releases and devices: all ranks are told the same.
    if (code == kNotSupported) throw UnsupportedError(words);
    throw Error(words);
  }

  Symbols symbols_;
  Result (*get_clique_id_)(CliqueId*);
  Result (*init_comms_)(Comm*, int, const int*, const int*, int, const CliqueId*);
  Result (*destroy_comms_)(Comm*, int);
  const char* (*get_error_string_)(Result);
  Result (*get_async_error_)(Comm);
  Result (*get_version_)(int*, int*, int*);
  Result (*group_start_)();
  Result (*group_end_)();
  Result (*all_reduce_)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*all_gather_)(const void*, void*, size_t, int, Comm, void*);
  Result (*reduce_scatter_)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*broadcast_)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*reduce_)(const void*, void*, size_t, int, int, int, Comm, void*);
  Result (*send_)(void*, size_t, int, int, Comm, void*);
  Result (*recv_)(void*, size_t, int, int, Comm, void*);
  Result (*alltoall_)(const void*, void*, size_t, int, Comm, void*);
  Result (*alltoallv_)(const void**, uint32_t*, int*, void**, uint32_t*, int*, Comm, void*);
};

}  // namespace

std::unique_ptr<Ccl> open_cncl(std::string_view, const CclPlaces& places) {
  return std::make_unique<GroupedLibrary<Cncl>>(places);
}

}  // namespace cclmark
