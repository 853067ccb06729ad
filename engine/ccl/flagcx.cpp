// FlagCX: one interface over the libraries of many vendors, and over groups that mix them.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>

#include "ccl/call_of.hpp"
#include "ccl/communicator.hpp"
#include "collective/table.hpp"
#include "core/library.hpp"

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

constexpr Result kSuccess = 0;
constexpr Result kInProgress = 7;
constexpr int kFloat32 = 7;
constexpr int kSum = 0;
constexpr int kUnavailable = -1;
constexpr size_t kVendorBytes = 128;
constexpr const char* kVariable = "CCLMARK_FLAGCX_LIBRARY";
constexpr std::string_view kNoText = "Not implemented.";

constexpr std::array<int, kDtypes.size()> kDtypeValues = {
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, kUnavailable, kUnavailable};
static_assert(kDtypes[7].name == "float32" && kDtypes[9].name == "bfloat16");

/// Its own words for its results: flagcxGetErrorString has none.
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

/// What a build for one vendor calls it, and the runtime of that vendor here.
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

class Api {
 public:
  explicit Api(const CclPlaces& places)
      : library(Library::open("flagcx", find(places), places.chosen.empty() ? kVariable : "")) {
    resolve(device_handle_init, "DeviceHandleInit");
    resolve(get_version, "GetVersion");
    resolve(get_unique_id, "GetUniqueId");
    resolve(comm_init_rank, "CommInitRank");
    resolve(comm_destroy, "CommDestroy");
    resolve(comm_get_async_error, "CommGetAsyncError");
    resolve(is_homo_comm, "IsHomoComm");
    resolve(get_last_error, "GetLastError");
    resolve(group_start, "GroupStart");
    resolve(group_end, "GroupEnd");
    resolve(all_reduce, "AllReduce");
    resolve(all_gather, "AllGather");
    resolve(reduce_scatter, "ReduceScatter");
    resolve(broadcast, "Broadcast");
    resolve(reduce, "Reduce");
    resolve(gather, "Gather");
    resolve(scatter, "Scatter");
    resolve(alltoall, "AlltoAll");
    resolve(alltoallv, "AlltoAllv");
    resolve(send, "Send");
    resolve(recv, "Recv");
  }

  void check(Result code, const char* call, Comm comm) const {
    if (code == kSuccess) [[likely]]
      return;
    fail(code, call, comm);
  }

  Library library;

  Result (*device_handle_init)(DeviceHandle**);
  Result (*get_version)(int*);
  Result (*get_unique_id)(UniqueId*);
  Result (*comm_init_rank)(Comm*, int, const UniqueId*, int);
  Result (*comm_destroy)(Comm);
  Result (*comm_get_async_error)(Comm, Result*);
  Result (*is_homo_comm)(Comm, int*);
  const char* (*get_last_error)(Comm);
  Result (*group_start)(Comm);
  Result (*group_end)(Comm);
  Result (*all_reduce)(const void*, void*, size_t, int, int, Comm, WrappedStream*);
  Result (*all_gather)(const void*, void*, size_t, int, Comm, WrappedStream*);
  Result (*reduce_scatter)(const void*, void*, size_t, int, int, Comm, WrappedStream*);
  Result (*broadcast)(const void*, void*, size_t, int, int, Comm, WrappedStream*);
  Result (*reduce)(const void*, void*, size_t, int, int, int, Comm, WrappedStream*);
  Result (*gather)(const void*, void*, size_t, int, int, Comm, WrappedStream*);
  Result (*scatter)(const void*, void*, size_t, int, int, Comm, WrappedStream*);
  Result (*alltoall)(const void*, void*, size_t, int, Comm, WrappedStream*);
  Result (*alltoallv)(const void*, const size_t*, const size_t*, void*, const size_t*,
                      const size_t*, int, Comm, WrappedStream*);
  Result (*send)(const void*, size_t, int, int, Comm, WrappedStream*);
  Result (*recv)(void*, size_t, int, int, Comm, WrappedStream*);

 private:
  static std::vector<std::string> find(const CclPlaces& places) {
    if (!places.chosen.empty()) return {places.chosen};
    if (const char* variable = std::getenv(kVariable)) return {variable};
    return {"libflagcx.so"};
  }

  template <typename R, typename... Arguments>
  void resolve(R (*&function)(Arguments...), const char* symbol) {
    function = library.require<R(Arguments...)>((std::string("flagcx") + symbol).c_str());
  }

  [[noreturn]] void fail(Result code, const char* call, Comm comm) const {
    bool known = code >= 0 && static_cast<size_t>(code) < kResults.size();
    std::string text = known ? kResults[static_cast<size_t>(code)] : "unknown result";
    const char* last = comm != nullptr ? get_last_error(comm) : nullptr;
    if (last != nullptr && *last != '\0' && last != kNoText) text += ": " + std::string(last);
    throw Error(Error::describe(std::string("flagcx") + call, code, text));
  }
};

std::string route_of(Collective collective) {
  switch (collective) {
    case Collective::sendrecv:
      return "grouped send/recv";
    case Collective::ping_pong:
      return "send and recv in turn";
    case Collective::barrier:
      // flagcxBarrier takes memory and waits for the device each time.
      return "all_reduce of 4 bytes";
    default:
      return "native";
  }
}

class FlagcxCommunicator final : public Communicator {
 public:
  FlagcxCommunicator(const Api& api, Device& device, std::span<const uint8_t> id, Team& team)
      : api_(api), device_(device), rank_(team.rank()), size_(team.size()) {
    UniqueId unique_id;
    if (id.size() != sizeof(unique_id)) throw Error("the communicator id has the wrong size");
    std::memcpy(&unique_id, id.data(), sizeof(unique_id));
    api_.check(api_.device_handle_init(&handle_), "DeviceHandleInit", nullptr);
    require_same_vendor();
    device_.activate();
    api_.check(handle_->set_device(device_.info().index), "DeviceHandle.setDevice", nullptr);
    api_.check(api_.comm_init_rank(&comm_, size_, &unique_id, rank_), "CommInitRank", nullptr);
  }

  /// Asks what only a communicator knows: apart from its making, which would leak it.
  void look() {
    int homogeneous = 1;
    api_.check(api_.is_homo_comm(comm_, &homogeneous), "IsHomoComm", comm_);
    mixed_ = homogeneous == 0;
  }

  ~FlagcxCommunicator() override {
    // Without flagcxCommFinalize: on NCCL that frees what flagcxCommDestroy frees again.
    if (comm_ != nullptr) api_.comm_destroy(comm_);
  }

  std::unique_ptr<Call> bind(const Operation& op, void* native) override {
    int dtype = kDtypeValues[static_cast<size_t>(op.dtype)];
    if (dtype == kUnavailable) {
      throw UnsupportedError("flagcx has no " + std::string(name(op.dtype)));
    }
    auto reduction = static_cast<int>(op.reduction);
    bool adds = op.reduction != Reduction::prod && op.reduction != Reduction::avg;
    if (mixed_ && info(op.collective).reduces && !adds) {
      throw UnsupportedError("flagcx has no " + std::string(name(op.reduction)) +
                             " between clusters");
    }
    WrappedStream* stream = &streams_.try_emplace(native, native).first->second;
    switch (op.collective) {
      case Collective::all_reduce:
        return make_call([=, this](const void* s, void* d) {
          api_.check(api_.all_reduce(s, d, op.count, dtype, reduction, comm_, stream), "AllReduce",
                     comm_);
        });
      case Collective::all_gather:
        return make_call([=, this](const void* s, void* d) {
          api_.check(api_.all_gather(s, d, op.count, dtype, comm_, stream), "AllGather", comm_);
        });
      case Collective::reduce_scatter:
        return make_call([=, this](const void* s, void* d) {
          api_.check(api_.reduce_scatter(s, d, op.count, dtype, reduction, comm_, stream),
                     "ReduceScatter", comm_);
        });
      case Collective::broadcast:
        return make_call([=, this](const void* s, void* d) {
          api_.check(api_.broadcast(s, d, op.count, dtype, op.root, comm_, stream), "Broadcast",
                     comm_);
        });
      case Collective::reduce:
        return make_call([=, this](const void* s, void* d) {
          api_.check(api_.reduce(s, d, op.count, dtype, reduction, op.root, comm_, stream),
                     "Reduce", comm_);
        });
      case Collective::gather:
        return make_call([=, this](const void* s, void* d) {
          api_.check(api_.gather(s, d, op.count, dtype, op.root, comm_, stream), "Gather", comm_);
        });
      case Collective::scatter:
        return make_call([=, this](const void* s, void* d) {
          api_.check(api_.scatter(s, d, op.count, dtype, op.root, comm_, stream), "Scatter", comm_);
        });
      case Collective::alltoall:
        return make_call([=, this](const void* s, void* d) {
          api_.check(api_.alltoall(s, d, op.count, dtype, comm_, stream), "AlltoAll", comm_);
        });
      case Collective::alltoallv:
        return make_call([=, this, parts = UnevenParts(op, rank_, size_)](const void* s, void* d) {
          api_.check(api_.alltoallv(s, parts.send_counts.data(), parts.send_offsets.data(), d,
                                    parts.receive_counts.data(), parts.receive_offsets.data(),
                                    dtype, comm_, stream),
                     "AlltoAllv", comm_);
        });
      case Collective::sendrecv:
        return bind_ring_shift(op.count, dtype, stream);
      case Collective::ping_pong:
        return bind_ping_pong(op.count, dtype, stream);
      case Collective::barrier:
        return bind_barrier(stream);
    }
    throw Error("unknown collective");
  }

  std::string route(const Operation& op) const override {
    return route_of(op.collective) + (mixed_ ? ", clusters of mixed vendors" : "");
  }

  void begin_group() override { api_.check(api_.group_start(comm_), "GroupStart", comm_); }
  void end_group() override { api_.check(api_.group_end(comm_), "GroupEnd", comm_); }

  void* allocate(size_t bytes, Registration registration) override {
    if (registration != Registration::none) {
      throw UnsupportedError(
          "flagcx takes registered buffers in a way that changes from release to release: measure "
          "without --register");
    }
    return device_.allocate(bytes);
  }
  void enroll(void*, size_t, Registration) override {}
  void release(void* memory, Registration) noexcept override { device_.release(memory); }

  bool blocking() const override { return mixed_; }

  void check() override {
    // Between clusters it answers that it does not know.
    if (mixed_) return;
    Result state = kSuccess;
    api_.check(api_.comm_get_async_error(comm_, &state), "CommGetAsyncError", comm_);
    if (state != kInProgress) api_.check(state, "CommGetAsyncError", comm_);
  }

 private:
  /// A build of FlagCX drives the devices of one vendor.
  void require_same_vendor() const {
    std::array<char, kVendorBytes> text{};
    api_.check(handle_->get_vendor(text.data()), "DeviceHandle.getVendor", nullptr);
    std::string_view vendor(text.data());
    const std::string& runtime = device_.info().runtime;
    auto row = std::ranges::find(kVendors, vendor, [](const auto& pair) { return pair[0]; });
    if (row == kVendors.end() || (*row)[1] == runtime) return;
    throw MissingError(api_.library.path() + " was built for " + std::string(vendor) +
                       " devices, and these are " + runtime + " devices: name another with " +
                       kVariable);
  }

  std::unique_ptr<Call> bind_ring_shift(size_t count, int dtype, WrappedStream* stream) {
    int right = (rank_ + 1) % size_;
    int left = (rank_ + size_ - 1) % size_;
    return make_call([=, this](const void* s, void* d) {
      api_.check(api_.group_start(comm_), "GroupStart", comm_);
      api_.check(api_.send(s, count, dtype, right, comm_, stream), "Send", comm_);
      api_.check(api_.recv(d, count, dtype, left, comm_, stream), "Recv", comm_);
      api_.check(api_.group_end(comm_), "GroupEnd", comm_);
    });
  }

  std::unique_ptr<Call> bind_ping_pong(size_t count, int dtype, WrappedStream* stream) {
    require_two_ranks(size_);
    int peer = 1 - rank_;
    return make_call([=, this, first = rank_ == 0](const void* s, void* d) {
      if (first) api_.check(api_.send(s, count, dtype, peer, comm_, stream), "Send", comm_);
      api_.check(api_.recv(d, count, dtype, peer, comm_, stream), "Recv", comm_);
      if (!first) api_.check(api_.send(s, count, dtype, peer, comm_, stream), "Send", comm_);
    });
  }

  std::unique_ptr<Call> bind_barrier(WrappedStream* stream) {
    if (barrier_memory_.data() == nullptr) barrier_memory_ = Buffer(device_, sizeof(float));
    void* word = barrier_memory_.data();
    return make_call([=, this](const void*, void*) {
      api_.check(api_.all_reduce(word, word, 1, kFloat32, kSum, comm_, stream), "AllReduce", comm_);
    });
  }

  const Api& api_;
  Device& device_;
  int rank_;
  int size_;
  DeviceHandle* handle_ = nullptr;
  Comm comm_ = nullptr;
  bool mixed_ = false;
  std::map<void*, WrappedStream> streams_;  // by what they wrap; each stays where it is
  Buffer barrier_memory_;
};

class FlagcxLibrary final : public Ccl {
 public:
  explicit FlagcxLibrary(const CclPlaces& places) : api_(places) {
    int version = 0;
    api_.check(api_.get_version(&version), "GetVersion", nullptr);
    info_.name = "flagcx";
    // A constant in every release so far, and not the release's number: told as it is.
    info_.version = std::to_string(version);
    info_.path = api_.library.path();
    info_.id_bytes = sizeof(UniqueId);
    for (size_t i = 0; i < kDtypes.size(); ++i) {
      if (kDtypeValues[i] != kUnavailable) info_.dtypes.emplace_back(kDtypes[i].name);
    }
    info_.reduced_dtypes = info_.dtypes;
    info_.reductions.assign(kReductions.begin(), kReductions.end());
    for (size_t i = 0; i < kCollectives.size(); ++i) {
      info_.routes.emplace_back(kCollectives[i], route_of(static_cast<Collective>(i)));
    }
  }

  const CclInfo& info() const override { return info_; }

  std::vector<uint8_t> make_id(int) override {
    UniqueId id;
    api_.check(api_.get_unique_id(&id), "GetUniqueId", nullptr);
    auto bytes = reinterpret_cast<const uint8_t*>(&id);
    return {bytes, bytes + sizeof(id)};
  }

  std::unique_ptr<Communicator> join(Device& device, std::span<const uint8_t> id,
                                     Team& team) override {
    auto joined = std::make_unique<FlagcxCommunicator>(api_, device, id, team);
    joined->look();
    return joined;
  }

 private:
  Api api_;
  CclInfo info_;
};

}  // namespace

std::unique_ptr<Ccl> open_flagcx(std::string_view, const CclPlaces& places) {
  return std::make_unique<FlagcxLibrary>(places);
}

}  // namespace cclmark
