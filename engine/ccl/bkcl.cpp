// XCCL, Kunlunxin's collective library, whose functions are called bkcl: the communicator comes
// first, and the order of the other arguments differs. Its header is not public: everything that
// does not appear in programs that call it is assumed, see src/cclmark/libraries/bkcl.toml.

#include <array>

#include "ccl/grouped.hpp"

namespace cclmark {
namespace {

/// The library takes ids by pointer and knows their size, which is less than this.
constexpr size_t kRoomForId = 4096;

constexpr OperationNames kNames = {
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "send", "recv"};

class Bkcl : public GroupedFunctions {
 public:
  Bkcl(const CclDescription& description, const CclPlaces& places)
      : GroupedFunctions(description, places, description.title, description.full_name) {
    symbols_.require(get_unique_id_, "get_unique_id");
    symbols_.require(init_rank_, "init_rank");
    symbols_.require(destroy_context_, "destroy_context");
    symbols_.require(group_start_, "group_start");
    symbols_.require(group_end_, "group_end");
    find_operations(kNames, all_reduce_, all_gather_, reduce_scatter_, broadcast_, reduce_, send_,
                    recv_);
    find_own(alltoall_, "all_to_all", Collective::alltoall);
    find_own(alltoallv_, "all_to_all_v", Collective::alltoallv);
  }

  void describe(CclInfo& info) const { GroupedFunctions::describe(info, "unknown", kRoomForId); }

  std::vector<uint8_t> make_id() const {
    std::vector<uint8_t> id(kRoomForId, 0);
    require(get_unique_id_(id.data()), "get_unique_id");
    return id;
  }

  Comm join(Device& device, std::span<const uint8_t> bytes, int rank, int ranks) const {
    symbols_.require_runtime_of(device);
    std::vector<uint8_t> id(bytes.begin(), bytes.end());
    Comm comm = nullptr;
    require(init_rank_(&comm, rank, ranks, id.data()), "init_rank");
    return comm;
  }
  void leave(Comm comm) const noexcept { destroy_context_(comm); }
  void check(Comm) const {}

  int reduction(const Operation& op) const {
    if (description_.reductions[static_cast<size_t>(op.reduction)] == kUnavailable) {
      throw UnsupportedError(called_ + "'s code for the reduction " +
                             std::string(cclmark::name(op.reduction)) + " is unknown");
    }
    return GroupedFunctions::reduction(op);
  }

  void all_reduce(const void* from, void* to, size_t count, int dtype, int op, Comm comm,
                  void* stream) const {
    require(all_reduce_(comm, from, to, count, dtype, op, stream), kNames.all_reduce);
  }
  void all_gather(const void* from, void* to, size_t count, int dtype, Comm comm,
                  void* stream) const {
    require(all_gather_(comm, from, count, to, dtype, stream), kNames.all_gather);
  }
  void reduce_scatter(const void* from, void* to, size_t count, int dtype, int op, Comm comm,
                      void* stream) const {
    require(reduce_scatter_(comm, from, to, count, dtype, op, stream), kNames.reduce_scatter);
  }
  void broadcast(const void* from, void* to, size_t count, int dtype, int root, Comm comm,
                 void* stream) const {
    require(broadcast_(comm, from, to, count, dtype, root, stream), kNames.broadcast);
  }
  void reduce(const void* from, void* to, size_t count, int dtype, int op, int root, Comm comm,
              void* stream) const {
    require(reduce_(comm, from, to, count, dtype, op, root, stream), kNames.reduce);
  }
  void send(const void* from, size_t count, int dtype, int peer, Comm comm, void* stream) const {
    require(send_(comm, from, count, peer, dtype, stream), kNames.send);
  }
  void recv(void* to, size_t count, int dtype, int peer, Comm comm, void* stream) const {
    require(recv_(comm, to, count, peer, dtype, stream), kNames.recv);
  }
  void group_start(Comm) const { require(group_start_(), "group_start"); }
  void group_end(Comm) const { require(group_end_(), "group_end"); }

  std::unique_ptr<Call> bind(const Operation& op, int dtype, const Seat& seat) const {
    if (op.collective == Collective::alltoallv) return bind_alltoallv(op, dtype, seat);
    return make_call([=, this, count = op.count](const void* s, void* d) {
      require(alltoall_(seat.comm, s, count, d, dtype, seat.stream), "all_to_all");
    });
  }

 private:
  /// The library reads counts and offsets in memory of the device.
  std::unique_ptr<Call> bind_alltoallv(const Operation& op, int dtype, const Seat& seat) const {
    UnevenParts parts(op, seat.rank, seat.ranks);
    Buffer table(seat.device, 4 * parts.send_counts.size() * sizeof(size_t));
    std::array<size_t*, 4> rows;
    const std::array<const std::vector<size_t>*, 4> values = {
        &parts.send_counts, &parts.send_offsets, &parts.receive_counts, &parts.receive_offsets};
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i] = reinterpret_cast<size_t*>(table.data()) + i * parts.send_counts.size();
      seat.device.copy_from_host(rows[i], values[i]->data(), values[i]->size() * sizeof(size_t));
    }
    return make_call([=, this, owned = std::move(table)](const void* s, void* d) {
      require(alltoallv_(seat.comm, s, rows[0], rows[1], dtype, d, rows[2], rows[3], dtype,
                         seat.stream),
              "all_to_all_v");
    });
  }

  /// No function that returns the text of a code is known.
  void require(Result code, const char* call) const {
    if (code == 0) [[likely]]
      return;
    throw Error(Error::describe(symbols_.prefix() + call, code, ""));
  }

  Result (*get_unique_id_)(void*);
  Result (*init_rank_)(Comm*, int, int, void*);
  Result (*destroy_context_)(Comm);
  Result (*group_start_)();
  Result (*group_end_)();
  Result (*all_reduce_)(Comm, const void*, void*, size_t, int, int, void*);
  Result (*all_gather_)(Comm, const void*, size_t, void*, int, void*);
  Result (*reduce_scatter_)(Comm, const void*, void*, size_t, int, int, void*);
  Result (*broadcast_)(Comm, const void*, void*, size_t, int, int, void*);
  Result (*reduce_)(Comm, const void*, void*, size_t, int, int, int, void*);
  Result (*send_)(Comm, const void*, size_t, int, int, void*);
  Result (*recv_)(Comm, void*, size_t, int, int, void*);
  Result (*alltoall_)(Comm, const void*, size_t, void*, int, void*);
  Result (*alltoallv_)(Comm, const void*, const size_t*, const size_t*, int, void*, const size_t*,
                       const size_t*, int, void*);
};

}  // namespace

std::unique_ptr<Ccl> open_bkcl(const CclDescription& description, const CclPlaces& places) {
  return std::make_unique<GroupedLibrary<Bkcl>>(description, places);
}

}  // namespace cclmark
