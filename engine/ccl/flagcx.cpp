// FlagCX: one interface over the libraries of many vendors, and over groups that mix them.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include "ccl/grouped.hpp"

namespace cclmark {
namespace {

struct UniqueId {
  char bytes[256];
};
using Comm = void*;
using Result = int;

/// Its streams are structures whose first field is the vendor's own.
struct WrappedStream {
  void* native;
};

/// The functions of its device adaptor that are called here; the others only keep their places.
struct DeviceHandle {
  void* before_set_device[5];
  Result (*set_device)(int);
  void* before_get_vendor[2];
  Result (*get_vendor)(char*);
};

/// The structure that releases before 0.13 return in place of the device handle alone.
struct HandlerGroup {
  UniqueId* id;
  Comm comm;
  DeviceHandle* device;
};

constexpr Result kSuccess = 0;
constexpr Result kInvalidArgument = 4;
constexpr Result kInvalidUsage = 5;
constexpr Result kInProgress = 7;
constexpr Result kNotSupported = 9;
constexpr Result kNotSupportedBefore05 = 8;
constexpr size_t kVendorBytes = 128;
/// The texts of adaptors that do not report their last error.
constexpr std::array<std::string_view, 3> kNoTexts = {"Not implemented.", "Not Implemented",
                                                      "flagcxNotSupported"};

/// FlagCX's own texts for its results: flagcxGetErrorString has none.
constexpr std::array<const char*, 10> kResults = {"success",
                                                  "unhandled device error",
                                                  "system error",
                                                  "internal error",
                                                  "invalid argument",
                                                  "invalid usage",
                                                  "remote error",
                                                  "in progress",
                                                  "unhandled error of the vendor's library",
                                                  "not supported"};

/// A vendor's name in FlagCX, and that vendor's runtime here.
constexpr std::array<std::array<std::string_view, 2>, 12> kVendors = {{
    {"NVIDIA", "cuda"},
    {"AMD", "hip"},
    {"METAX", "maca"},
    {"MUSA", "musa"},
    {"ENFLAME", "tops"},
    {"MLU", "cnrt"},
    {"SUNRISE", "tang"},
    {"ASCEND", "acl"},
    {"ILUVATAR_COREX", "cudart"},
    {"DU", "cudart"},
    {"PPU", "cudart"},
    {"KUNLUNXIN", "cudart"},
}};

class Flagcx : public FunctionsInNcclsOrder<Flagcx> {
 public:
  Flagcx(const CclDescription& description, const CclPlaces& places)
      : FunctionsInNcclsOrder(description, places, description.name, description.name) {
    if (symbols_.have(symbols_.prefix() + "DeviceHandleInit")) {
      symbols_.require(device_handle_init_, "DeviceHandleInit");
    } else {
      symbols_.require(handle_init_, "HandleInit");
    }
    if (!symbols_.have(symbols_.prefix() + "MemAlloc")) not_supported_ = kNotSupportedBefore05;
    symbols_.require(get_version_, "GetVersion");
    symbols_.require(get_unique_id_, "GetUniqueId");
    symbols_.require(comm_init_rank_, "CommInitRank");
    symbols_.require(comm_destroy_, "CommDestroy");
    symbols_.require(comm_get_async_error_, "CommGetAsyncError");
    symbols_.require(is_homo_comm_, "IsHomoComm");
    symbols_.require(get_last_error_, "GetLastError");
    symbols_.require(group_start_, "GroupStart");
    symbols_.require(group_end_, "GroupEnd");
    find_operations();
    find_own(gather_, "Gather", Collective::gather);
    find_own(scatter_, "Scatter", Collective::scatter);
    find_own(alltoall_, "AlltoAll", Collective::alltoall);
    find_own(alltoallv_, "AlltoAllv", Collective::alltoallv);
  }

  void describe(CclInfo& info) const {
    int version = 0;
    require(get_version_(&version), "GetVersion", nullptr);
    // A constant in every release so far, and not the release's number: reported unchanged.
    FunctionsInNcclsOrder::describe(info, std::to_string(version), sizeof(UniqueId));
  }

  std::vector<uint8_t> make_id() const {
    UniqueId id;
    if (device_handle_init_ != nullptr) {
      require(get_unique_id_(&id), "GetUniqueId", nullptr);
    } else {
      UniqueId* made = nullptr;  // allocated by the library, for the caller to free
      require(get_unique_id_(&made), "GetUniqueId", nullptr);
      id = *made;
      std::free(made);
    }
    return bytes_of(id);
  }

  Comm join(Device& device, std::span<const uint8_t> bytes, int rank, int ranks) const {
    auto id = id_of<UniqueId>(bytes);
    const DeviceHandle& handle = device_handle();
    require_same_vendor(handle, device.info());
    symbols_.require_runtime_of(device);
    device.activate();
    require(handle.set_device(device.info().index), "DeviceHandle.setDevice", nullptr);
    Comm comm = nullptr;
    require(comm_init_rank_(&comm, ranks, &id, rank), "CommInitRank", nullptr);
    return comm;
  }
  /// Without flagcxCommFinalize: on NCCL that frees what flagcxCommDestroy frees again.
  void leave(Comm comm) const noexcept { comm_destroy_(comm); }
  void check(Comm comm) const {
    Result state = kSuccess;
    Result asked = comm_get_async_error_(comm, &state);
    // Several adaptors do not report it, nor does FlagCX for clusters of mixed vendors.
    if (asked == not_supported_) return;
    require(asked, "CommGetAsyncError", comm);
    if (state != kInProgress) require(state, "CommGetAsyncError", comm);
  }

  /// Whether its ranks are clusters of different vendors.
  bool mixed(Comm comm) const {
    int homogeneous = 1;
    require(is_homo_comm_(comm, &homogeneous), "IsHomoComm", comm);
    return homogeneous == 0;
  }

  // Groups are a communicator's here.
  void group_start(Comm comm) const { require(group_start_(comm), "GroupStart", comm); }
  void group_end(Comm comm) const { require(group_end_(comm), "GroupEnd", comm); }

  std::unique_ptr<Call> bind(const Operation& op, int dtype, const Seat& seat) const {
    Comm comm = seat.comm;
    void* stream = seat.stream;
    switch (op.collective) {
      case Collective::gather:
        return make_call([=, this](const void* s, void* d) {
          require(gather_(s, d, op.count, dtype, op.root, comm, stream), "Gather", comm);
        });
      case Collective::scatter:
        return make_call([=, this](const void* s, void* d) {
          require(scatter_(s, d, op.count, dtype, op.root, comm, stream), "Scatter", comm);
        });
      case Collective::alltoall:
        return make_call([=, this](const void* s, void* d) {
          require(alltoall_(s, d, op.count, dtype, comm, stream), "AlltoAll", comm);
        });
      default:
        return make_call(
            [=, this, parts = UnevenParts(op, seat.rank, seat.ranks)](const void* s, void* d) {
              require(alltoallv_(s, parts.send_counts.data(), parts.send_offsets.data(), d,
                                 parts.receive_counts.data(), parts.receive_offsets.data(), dtype,
                                 comm, stream),
                      "AlltoAllv", comm);
            });
    }
  }

  void require(Result code, const char* call, Comm comm) const {
    if (code == kSuccess) [[likely]]
      return;
    bool known = code >= 0 && static_cast<size_t>(code) < kResults.size();
    std::string text = known ? kResults[static_cast<size_t>(code)] : "unknown result";
    if (code == not_supported_) text = kResults[kNotSupported];
    const char* last = comm != nullptr ? get_last_error_(comm) : nullptr;
    bool tells = last != nullptr && *last != '\0' && std::ranges::count(kNoTexts, last) == 0;
    if (tells) text += ": " + std::string(last);
    std::string message = Error::describe(symbols_.prefix() + call, code, text);
    // A function that a vendor's adaptor does not support.
    if (code == not_supported_) throw UnsupportedError(message);
    // Most adaptors return the codes of the vendor's library.
    if (code == kInvalidArgument || code == kInvalidUsage) throw RefusedError(message);
    throw Error(message);
  }

 private:
  const DeviceHandle& device_handle() const {
    if (device_handle_init_ != nullptr) {
      DeviceHandle* handle = nullptr;
      require(device_handle_init_(&handle), "DeviceHandleInit", nullptr);
      return *handle;
    }
    HandlerGroup* handles = nullptr;
    require(handle_init_(&handles), "HandleInit", nullptr);
    return *handles->device;
  }

  /// A build of FlagCX drives the devices of one vendor.
  void require_same_vendor(const DeviceHandle& handle, const DeviceInfo& device) const {
    std::array<char, kVendorBytes> text{};
    require(handle.get_vendor(text.data()), "DeviceHandle.getVendor", nullptr);
    std::string_view vendor(text.data());
    const std::string& runtime = device.runtime;
    auto row = std::ranges::find(kVendors, vendor, [](const auto& pair) { return pair[0]; });
    if (row == kVendors.end() || (*row)[1] == runtime) return;
    throw UnsupportedError(symbols_.path() + " was built for " + std::string(vendor) +
                           " devices, and these are " + runtime + " devices: set " +
                           description_.variable + " to another file");
  }

  Result not_supported_ = kNotSupported;
  Result (*device_handle_init_)(DeviceHandle**) = nullptr;
  Result (*handle_init_)(HandlerGroup**) = nullptr;  // in its place before 0.13
  Result (*get_version_)(int*);
  Result (*get_unique_id_)(void*);  // UniqueId*; UniqueId** before 0.13
  Result (*comm_init_rank_)(Comm*, int, const UniqueId*, int);
  Result (*comm_destroy_)(Comm);
  Result (*comm_get_async_error_)(Comm, Result*);
  Result (*is_homo_comm_)(Comm, int*);
  const char* (*get_last_error_)(Comm);
  Result (*group_start_)(Comm);
  Result (*group_end_)(Comm);
  Result (*gather_)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*scatter_)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*alltoall_)(const void*, void*, size_t, int, Comm, void*);
  Result (*alltoallv_)(const void*, const size_t*, const size_t*, void*, const size_t*,
                       const size_t*, int, Comm, void*);
};

/// Streams in the library's form, which it may access until its communicator has ended.
struct WrappedStreams {
  std::map<void*, WrappedStream> streams;  // by what they wrap; each stays where it is
};

/// With streams wrapped, and with what is different between clusters of mixed vendors: calls block
/// and not all is reduced. The streams come first, so that they go last.
class FlagcxCommunicator final : private WrappedStreams, public GroupedCommunicator<Flagcx> {
 public:
  FlagcxCommunicator(const Flagcx& api, Device& device, std::span<const uint8_t> id,
                     RankGroup& rank_group)
      : GroupedCommunicator(api, device, id, rank_group), mixed_(api.mixed(comm_)) {}

  std::unique_ptr<Call> bind(const Operation& op, void* stream) override {
    bool adds = op.reduction != Reduction::prod && op.reduction != Reduction::avg;
    if (mixed_ && info(op.collective).reduces && !adds) {
      throw UnsupportedError("flagcx does not support " + std::string(name(op.reduction)) +
                             " between clusters");
    }
    return GroupedCommunicator::bind(op, &streams.try_emplace(stream, stream).first->second);
  }

  std::string route(const Operation& op) const override {
    return GroupedCommunicator::route(op) + (mixed_ ? ", clusters of mixed vendors" : "");
  }

  std::string no_registration(Registration) const override {
    return "registered buffers are not supported with flagcx, whose functions for them change from "
           "release to release: use --register none";
  }

  bool blocking() const override { return mixed_; }

 private:
  bool mixed_;
};

}  // namespace

std::unique_ptr<Ccl> open_flagcx(const CclDescription& description, const CclPlaces& places) {
  return std::make_unique<GroupedLibrary<Flagcx, FlagcxCommunicator>>(description, places);
}

}  // namespace cclmark
