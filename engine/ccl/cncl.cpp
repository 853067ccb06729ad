// CNCL, Cambricon's collective library: ids of 136 bytes by pointer, communicators made in lists,
// its own numbers for types, and neither averages nor 64-bit or 8-bit floats.

#include <limits>

#include "ccl/grouped.hpp"

namespace cclmark {
namespace {

struct CliqueId {
  char data[128];
  uint64_t hash;
};
static_assert(sizeof(CliqueId) == 136);

constexpr int kInProgress = 0x06;
constexpr int kNotSupported = 0x11;

class Cncl : public FunctionsInNcclsOrder<Cncl> {
 public:
  Cncl(const CclDescription& description, const CclPlaces& places)
      : FunctionsInNcclsOrder(description, places, description.title, description.full_name) {
    symbols_.require(get_clique_id_, "GetCliqueId");
    symbols_.require(init_comms_, "InitComms");
    symbols_.require(destroy_comms_, "DestroyComms");
    symbols_.require(get_error_string_, "GetErrorStr");
    symbols_.require(get_async_error_, "GetCommAsyncError");
    symbols_.require(get_version_, "GetLibVersion");
    require_groups();
    find_operations();
    find_own(alltoall_, "AlltoAll", Collective::alltoall);
    find_own(alltoallv_, "AlltoAllv", Collective::alltoallv);
  }

  void describe(CclInfo& info) const {
    int major = 0, minor = 0, patch = 0;
    require(get_version_(&major, &minor, &patch), "GetLibVersion");
    std::string version =
        std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
    FunctionsInNcclsOrder::describe(info, version, sizeof(CliqueId));
  }

  std::vector<uint8_t> make_id() const {
    CliqueId id{};
    require(get_clique_id_(&id), "GetCliqueId");
    return bytes_of(id);
  }

  Comm join(Device& device, std::span<const uint8_t> bytes, int rank, int ranks) const {
    symbols_.require_runtime_of(device);
    auto id = id_of<CliqueId>(bytes);
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

  std::unique_ptr<Call> bind(const Operation& op, int dtype, const Seat& seat) const {
    if (op.collective == Collective::alltoallv) return bind_alltoallv(op, dtype, seat);
    return make_call([=, this, count = op.count](const void* s, void* d) {
      require(alltoall_(s, d, count, dtype, seat.comm, seat.stream), "AlltoAll");
    });
  }

  void require(Result code, const char* call, Comm = nullptr) const {
    if (code == 0) [[likely]]
      return;
    const char* text = get_error_string_(code);
    std::string words =
        Error::describe(symbols_.prefix() + call, code, text != nullptr ? text : "");
    // Unsupported reductions differ between releases and devices; all ranks get the same error.
    if (code == kNotSupported) throw UnsupportedError(words);
    throw Error(words);
  }

 private:
  /// The library takes an address, a count of 32 bits and a type for each part.
  std::unique_ptr<Call> bind_alltoallv(const Operation& op, int dtype, const Seat& seat) const {
    // Ranks' counts differ: if one cannot do the operation, none may begin it.
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
      throw UnsupportedError("cnclAlltoAllv supports at most 2^32 - 1 elements for each peer");
    }
    return {counts.begin(), counts.end()};
  }

  Result (*get_clique_id_)(CliqueId*);
  Result (*init_comms_)(Comm*, int, const int*, const int*, int, const CliqueId*);
  Result (*destroy_comms_)(Comm*, int);
  const char* (*get_error_string_)(Result);
  Result (*get_async_error_)(Comm);
  Result (*get_version_)(int*, int*, int*);
  Result (*alltoall_)(const void*, void*, size_t, int, Comm, void*);
  Result (*alltoallv_)(const void**, uint32_t*, int*, void**, uint32_t*, int*, Comm, void*);
};

}  // namespace

std::unique_ptr<Ccl> open_cncl(const CclDescription& description, const CclPlaces& places) {
  return std::make_unique<GroupedLibrary<Cncl>>(description, places);
}

}  // namespace cclmark
