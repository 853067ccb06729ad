// oneCCL's C interface, in the library's second version, for memory of the host: near NCCL's, with
// ids of 4096 bytes, parts of different sizes one after the other, and no streams.

#include <array>
#include <cstdlib>
#include <cstring>

#include "ccl/grouped.hpp"

namespace cclmark {
namespace {

constexpr const char* kVariable = "CCLMARK_ONECCL_LIBRARY";
constexpr const char* kPlugin = "CCL_PLUGIN";

struct UniqueId {
  char data[4096];
};
using Comm = void*;
using Result = int;

constexpr Result kNotImplemented = 12;
constexpr int kUnavailable = -1;
/// What it takes for a stream where buffers lie in memory of the host.
constexpr void* kNoStream = nullptr;

/// By Dtype.
constexpr std::array<int, kDtypes.size()> kTypes = {
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, kUnavailable, kUnavailable};
/// By Reduction. Averages have a number, and are refused for memory of the host.
constexpr std::array<int, kReductions.size()> kOperations = {0, 1, 2, 3, kUnavailable};

class OneCcl {
 public:
  const char* name() const { return "oneccl"; }

  explicit OneCcl(const CclPlaces& places)
      : symbols_("Intel's oneCCL", places, kVariable,
                 {"libccl.so.2", "/opt/intel/oneapi/ccl/latest/lib/libccl.so.2"}, "oneccl") {
    symbols_.require(get_version_, "GetVersion");
    symbols_.require(get_unique_id_, "GetUniqueId");
    symbols_.require(comm_init_rank_, "CommInitRank");
    symbols_.require(comm_destroy_, "CommDestroy");
    symbols_.require(get_error_string_, "GetErrorString");
    symbols_.require(group_start_, "GroupStart");
    symbols_.require(group_end_, "GroupEnd");
    symbols_.find_operation(all_reduce_, "AllReduce", Collective::all_reduce);
    symbols_.find_operation(all_gather_, "AllGather", Collective::all_gather);
    symbols_.find_operation(reduce_scatter_, "ReduceScatter", Collective::reduce_scatter);
    symbols_.find_operation(broadcast_, "Broadcast", Collective::broadcast);
    symbols_.find_operation(reduce_, "Reduce", Collective::reduce);
    symbols_.find_message(send_, "Send");
    symbols_.find_message(recv_, "Recv");
    symbols_.find(alltoall_, "AllToAll");
    symbols_.find(alltoallv_, "AllToAllV");
    symbols_.find(scatter_, "Scatter");
    symbols_.find(get_last_error_, "GetLastError");
  }

  void describe(CclInfo& info) const {
    int version = 0;
    require(get_version_(&version), "GetVersion", nullptr);
    info.version = std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
                   "." + std::to_string(version % 100);
    symbols_.describe(info);
    info.id_bytes = sizeof(UniqueId);
    for (size_t i = 0; i < kDtypes.size(); ++i) {
      if (kTypes[i] != kUnavailable) info.dtypes.emplace_back(kDtypes[i].name);
    }
    info.reduced_dtypes = info.dtypes;
    info.reductions = {"sum", "prod", "max", "min"};
  }

  const Symbols& symbols() const { return symbols_; }

  std::vector<uint8_t> make_id() const {
    UniqueId id{};
    require(get_unique_id_(&id), "GetUniqueId", nullptr);
    auto bytes = reinterpret_cast<const uint8_t*>(&id);
    return {bytes, bytes + sizeof(id)};
  }

  Comm join(Device&, std::span<const uint8_t> bytes, int rank, int ranks) const {
    UniqueId id;
    std::memcpy(&id, bytes.data(), sizeof(id));
    Comm comm = nullptr;
    require(comm_init_rank_(&comm, static_cast<size_t>(ranks), id, rank), "CommInitRank", nullptr);
    return comm;
  }
  void leave(Comm comm) const noexcept { comm_destroy_(comm); }
  void check(Comm) const {}

  int dtype(const Operation& op, const Device&) const {
    int value = kTypes[static_cast<size_t>(op.dtype)];
    if (value == kUnavailable)
      throw UnsupportedError("oneCCL has no " + std::string(cclmark::name(op.dtype)));
    return value;
  }
  int reduction(const Operation& op) const {
    int value = kOperations[static_cast<size_t>(op.reduction)];
    if (value == kUnavailable) {
      throw UnsupportedError("oneCCL has no reduction " + std::string(cclmark::name(op.reduction)) +
                             " in memory of the host");
    }
    return value;
  }

  void all_reduce(const void* from, void* to, size_t count, int dtype, int op, Comm comm,
                  void*) const {
    require(all_reduce_(const_cast<void*>(from), to, count, dtype, op, comm, kNoStream),
            "AllReduce", comm);
  }
  void all_gather(const void* from, void* to, size_t count, int dtype, Comm comm, void*) const {
    require(all_gather_(from, to, count, dtype, comm, kNoStream), "AllGather", comm);
  }
  void reduce_scatter(const void* from, void* to, size_t count, int dtype, int op, Comm comm,
                      void*) const {
    require(reduce_scatter_(from, to, count, dtype, op, comm, kNoStream), "ReduceScatter", comm);
  }
  void broadcast(const void* from, void* to, size_t count, int dtype, int root, Comm comm,
                 void*) const {
    require(broadcast_(from, to, count, dtype, root, comm, kNoStream), "Broadcast", comm);
  }
  void reduce(const void* from, void* to, size_t count, int dtype, int op, int root, Comm comm,
              void*) const {
    require(reduce_(from, to, count, dtype, op, root, comm, kNoStream), "Reduce", comm);
  }
  void send(const void* from, size_t count, int dtype, int peer, Comm comm, void*) const {
    require(send_(from, count, dtype, peer, comm, kNoStream), "Send", comm);
  }
  void recv(void* to, size_t count, int dtype, int peer, Comm comm, void*) const {
    require(recv_(to, count, dtype, peer, comm, kNoStream), "Recv", comm);
  }
  void group_start(Comm comm) const { require(group_start_(), "GroupStart", comm); }
  void group_end(Comm comm) const { require(group_end_(), "GroupEnd", comm); }

  /// Exchanges are grouped only by releases without AllToAllV (2022.1): for each send and receive
  /// in a group the library logs an error, although it performs them, and that is part of the time.
  const char* own_route(Collective collective) const {
    const char* by_parts = alltoallv_ != nullptr ? "alltoallv" : nullptr;
    switch (collective) {
      case Collective::alltoall:
        return alltoall_ != nullptr ? "native" : by_parts;
      case Collective::alltoallv:
        return alltoallv_ != nullptr ? "native" : nullptr;
      case Collective::scatter:
        return scatter_ != nullptr ? "native" : by_parts;
      case Collective::gather:
      case Collective::sendrecv:
        return by_parts;
      default:
        return nullptr;
    }
  }

  std::unique_ptr<Call> bind(Operation op, int dtype, const Seat& seat) const {
    Comm comm = seat.comm;
    if (op.collective == Collective::alltoall && alltoall_ != nullptr) {
      return make_call([=, this, count = op.count](const void* s, void* d) {
        require(alltoall_(s, d, count, dtype, comm, kNoStream), "AllToAll", comm);
      });
    }
    if (op.collective == Collective::scatter && scatter_ != nullptr) {
      return make_call([=, this, count = op.count, root = op.root](const void* s, void* d) {
        require(scatter_(s, d, count, dtype, root, comm, kNoStream), "Scatter", comm);
      });
    }
    op.matrix = matrix_of(op, seat.ranks);
    return make_call(
        [=, this, parts = UnevenParts(op, seat.rank, seat.ranks)](const void* s, void* d) {
          require(alltoallv_(s, parts.send_counts.data(), d, parts.receive_counts.data(), dtype,
                             comm, kNoStream),
                  "AllToAllV", comm);
        });
  }

 private:
  void require(Result code, const char* call, Comm comm) const {
    if (code == 0) [[likely]]
      return;
    std::string text = get_error_string_(code);
    const char* last = get_last_error_ != nullptr ? get_last_error_(comm) : nullptr;
    if (last != nullptr && *last != '\0') text += ": " + std::string(last);
    std::string words = Error::describe(symbols_.prefix() + call, code, text);
    if (code == kNotImplemented) throw UnsupportedError(words);
    if (std::getenv(kPlugin) == nullptr) {
      words += ". For memory of the host it may need CCL_PLUGIN=ONECCL_LEGACY_CPU";
    }
    throw Error(words);
  }

  Symbols symbols_;
  Result (*get_version_)(int*);
  Result (*get_unique_id_)(UniqueId*);
  Result (*comm_init_rank_)(Comm*, size_t, UniqueId, int);
  Result (*comm_destroy_)(Comm);
  const char* (*get_error_string_)(Result);
  Result (*group_start_)();
  Result (*group_end_)();
  Result (*all_reduce_)(void*, void*, size_t, int, int, Comm, void*);
  Result (*all_gather_)(const void*, void*, size_t, int, Comm, void*);
  Result (*reduce_scatter_)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*broadcast_)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*reduce_)(const void*, void*, size_t, int, int, int, Comm, void*);
  Result (*send_)(const void*, size_t, int, int, Comm, void*);
  Result (*recv_)(void*, size_t, int, int, Comm, void*);
  Result (*alltoall_)(const void*, void*, size_t, int, Comm, void*);
  Result (*alltoallv_)(const void*, const size_t*, void*, const size_t*, int, Comm, void*);
  Result (*scatter_)(const void*, void*, size_t, int, int, Comm, void*);
  const char* (*get_last_error_)(Comm);
};

}  // namespace

std::unique_ptr<Ccl> open_oneccl(std::string_view, const CclPlaces& places) {
  return std::make_unique<GroupedLibrary<OneCcl>>(places);
}

}  // namespace cclmark
