// oneCCL's C interface, in the library's second version, for memory of the host: near NCCL's, with
// ids of 4096 bytes, parts of different sizes one after the other, and no streams.

#include <cstdlib>

#include "ccl/grouped.hpp"

namespace cclmark {
namespace {

constexpr const char* kPlugin = "CCL_PLUGIN";

struct UniqueId {
  char data[4096];
};

constexpr int kNotImplemented = 12;
/// The stream argument for buffers in host memory.
constexpr void* kNoStream = nullptr;

class OneCcl : public FunctionsInNcclsOrder<OneCcl> {
 public:
  OneCcl(const CclDescription& description, const CclPlaces& places)
      : FunctionsInNcclsOrder(description, places, description.title, description.full_name) {
    symbols_.require(get_version_, "GetVersion");
    symbols_.require(get_unique_id_, "GetUniqueId");
    symbols_.require(comm_init_rank_, "CommInitRank");
    symbols_.require(comm_destroy_, "CommDestroy");
    symbols_.require(get_error_string_, "GetErrorString");
    require_groups();
    find_operations();
    find_own(alltoall_, "AllToAll", Collective::alltoall);
    find_own(alltoallv_, "AllToAllV", Collective::alltoallv);
    find_own(scatter_, "Scatter", Collective::scatter);
    symbols_.find(get_last_error_, "GetLastError");
  }

  void describe(CclInfo& info) const {
    int version = 0;
    require(get_version_(&version), "GetVersion", nullptr);
    FunctionsInNcclsOrder::describe(info, version_text(version), sizeof(UniqueId));
  }

  std::vector<uint8_t> make_id() const {
    UniqueId id{};
    require(get_unique_id_(&id), "GetUniqueId", nullptr);
    return bytes_of(id);
  }

  Comm join(Device&, std::span<const uint8_t> bytes, int rank, int ranks) const {
    auto id = id_of<UniqueId>(bytes);
    Comm comm = nullptr;
    require(comm_init_rank_(&comm, static_cast<size_t>(ranks), id, rank), "CommInitRank", nullptr);
    return comm;
  }
  void leave(Comm comm) const noexcept { comm_destroy_(comm); }
  void check(Comm) const {}

  int reduction(const Operation& op) const {
    if (description_.reductions[static_cast<size_t>(op.reduction)] == kUnavailable) {
      throw UnsupportedError(called_ + " does not support the reduction " +
                             std::string(cclmark::name(op.reduction)) + " in host memory");
    }
    return FunctionsInNcclsOrder::reduction(op);
  }

  static void* stream_of(void*) { return kNoStream; }

  /// Exchanges are grouped only by releases without AllToAllV (2022.1): for each send and receive
  /// in a group the library logs an error, although it performs them, and that is part of the time.
  const char* own_route(Collective collective) const {
    if (const char* native = FunctionsInNcclsOrder::own_route(collective)) return native;
    Composition composition = info(collective).composition;
    bool by_parts = composition == Composition::exchange || composition == Composition::ring;
    return by_parts && alltoallv_ != nullptr ? "alltoallv" : nullptr;
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

  void require(Result code, const char* call, Comm comm) const {
    if (code == 0) [[likely]]
      return;
    std::string text = get_error_string_(code);
    const char* last = get_last_error_ != nullptr ? get_last_error_(comm) : nullptr;
    if (last != nullptr && *last != '\0') text += ": " + std::string(last);
    std::string words = Error::describe(symbols_.prefix() + call, code, text);
    if (code == kNotImplemented) throw UnsupportedError(words);
    if (std::getenv(kPlugin) == nullptr) {
      words += ". Host memory may require CCL_PLUGIN=ONECCL_LEGACY_CPU";
    }
    throw Error(words);
  }

 private:
  Result (*get_version_)(int*);
  Result (*get_unique_id_)(UniqueId*);
  Result (*comm_init_rank_)(Comm*, size_t, UniqueId, int);
  Result (*comm_destroy_)(Comm);
  const char* (*get_error_string_)(Result);
  Result (*alltoall_)(const void*, void*, size_t, int, Comm, void*);
  Result (*alltoallv_)(const void*, const size_t*, void*, const size_t*, int, Comm, void*);
  Result (*scatter_)(const void*, void*, size_t, int, int, Comm, void*);
  const char* (*get_last_error_)(Comm);
};

}  // namespace

std::unique_ptr<Ccl> open_oneccl(const CclDescription& description, const CclPlaces& places) {
  return std::make_unique<GroupedLibrary<OneCcl>>(description, places);
}

}  // namespace cclmark
