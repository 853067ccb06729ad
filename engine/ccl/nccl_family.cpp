// Every library that speaks NCCL's interface: one table row each, one implementation for all.

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "ccl/grouped.hpp"

namespace cclmark {
namespace {

struct UniqueId {
  char bytes[128];
};
using Comm = void*;
using Window = void*;
using Result = int;

constexpr Result kSuccess = 0;
constexpr Result kInProgress = 7;
constexpr int kSymmetricWindow = 1;
constexpr int kUnavailable = -1;

/// How a library spells its functions for exchanges, without the prefix, and what they take.
struct Exchanges {
  const char* alltoall = "AlltoAll";
  const char* alltoallv = nullptr;
  /// In releases that lack those.
  const char* older_alltoall = nullptr;
  const char* older_alltoallv = nullptr;
  /// Count and type are given for what is sent and for what is received.
  bool typed_twice = false;
};

struct Family {
  std::string_view name;
  const char* vendor;
  std::string_view prefix;
  std::array<const char*, 4> sonames;
  const char* variable;
  int oldest_version;
  /// The library's values for Dtype and Reduction; kUnavailable where it has none.
  std::array<int, kDtypes.size()> dtypes;
  std::array<int, kReductions.size()> reductions;
  /// Oldest version and device architecture that reduce 8-bit floats.
  int fp8_version;
  int fp8_architecture;
  /// A function, of its own or of a library that it needs, by which this vendor's library is told
  /// from others' of the same name and prefix; nullptr where nothing tells.
  const char* mark = nullptr;
  Exchanges exchanges = {};
  /// 8-bit floats may be FNUZ: their codes stand for half of what OCP's do. What is added, compared
  /// or averaged has the same bits, products have not.
  bool fp8_halved = false;
  /// Made from another vendor's runtime and library: that one's mark does not tell them apart.
  bool derived = false;
};

constexpr int kNone = kUnavailable;
constexpr std::array<int, kDtypes.size()> kAllDtypes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
constexpr std::array<int, kDtypes.size()> kWithoutFp8 = {0, 1, 2, 3, 4,     5,
                                                         6, 7, 8, 9, kNone, kNone};
constexpr std::array<int, kReductions.size()> kAllReductions = {0, 1, 2, 3, 4};
constexpr Exchanges kOfRccl = {"AlltoAll", "AlltoAllv", "AllToAll", "AllToAllv"};
constexpr Exchanges kOfMetax = {"AllToAll", "AllToAllv"};

constexpr Family kFamilies[] = {
    {"nccl",
     "NVIDIA's NCCL",
     "nccl",
     {"libnccl.so.2", "libnccl.so"},
     "CCLMARK_NCCL_LIBRARY",
     21800,
     kAllDtypes,
     kAllReductions,
     22400,
     90},
    {"rccl",
     "AMD's RCCL",
     "nccl",
     {"librccl.so.1", "librccl.so", "/opt/rocm/lib/librccl.so.1"},
     "CCLMARK_RCCL_LIBRARY",
     20700,
     kAllDtypes,
     kAllReductions,
     22005,
     0,
     "hipGetDeviceCount",
     kOfRccl,
     true},
    {"maca-mccl",
     "MetaX's MCCL",
     "mccl",
     {"libmccl.so", "/opt/maca/lib/libmccl.so", "/opt/maca/lib64/libmccl.so"},
     "CCLMARK_MACA_MCCL_LIBRARY",
     20700,
     kWithoutFp8,
     kAllReductions,
     0,
     0,
     "mcclCommMcDevice",
     kOfMetax},
    {"musa-mccl",
     "Moore Threads' MCCL",
     "mccl",
     {"libmccl.so.2", "libmccl.so", "/usr/local/musa/lib/libmccl.so.2"},
     "CCLMARK_MUSA_MCCL_LIBRARY",
     0,
     kWithoutFp8,
     kAllReductions,
     0,
     0,
     "mcclCommMuDevice"},
    {"eccl",
     "Enflame's ECCL",
     "eccl",
     {"libeccl.so", "libeccl.so.3", "/usr/lib/libeccl.so"},
     "CCLMARK_ECCL_LIBRARY",
     0,
     kWithoutFp8,
     kAllReductions,
     0,
     0,
     nullptr,
     {"Alltoall", "AlltoAllv", nullptr, nullptr, true}},
    {"ixccl",
     "Iluvatar's IXCCL",
     "nccl",
     {"/usr/local/corex/lib/libnccl.so", "/usr/local/corex/lib64/libnccl.so", "libnccl.so.2",
      "libnccl.so"},
     "CCLMARK_IXCCL_LIBRARY",
     20700,
     kWithoutFp8,
     kAllReductions,
     0,
     0},
    {"duccl",
     "Hygon's DUCCL",
     "nccl",
     {"libnccl.so.2", "libnccl.so", "/opt/dtk/cuda/cuda/lib64/libnccl.so.2",
      "/opt/dtk/cuda/lib64/libnccl.so.2"},
     "CCLMARK_DUCCL_LIBRARY",
     20700,
     kWithoutFp8,
     kAllReductions,
     0,
     0,
     nullptr,
     {},
     false,
     true},
    {"pccl",
     "T-Head's PCCL",
     "nccl",
     {"libnccl.so", "libnccl.so.2", "/usr/local/nccl/build/lib64/libnccl.so"},
     "CCLMARK_PCCL_LIBRARY",
     20700,
     kWithoutFp8,
     kAllReductions,
     0,
     0},
    {"sunrise-pccl",
     "Sunrise's PCCL",
     "pccl",
     {"libpccl.so", "/usr/local/pccl/lib/linux-x86_64/libpccl.so"},
     "CCLMARK_SUNRISE_PCCL_LIBRARY",
     0,
     {0, 1, 2, 3, 4, 5, 6, 7, kNone, 9, kNone, kNone},
     kAllReductions,
     0,
     0},
};

/// A library of the family. Optional functions are those that `find` looks for.
class Nccl {
 public:
  Nccl(const Family& family, const CclPlaces& places)
      : family_(family),
        symbols_(std::string(family.name), places, family.variable, files_of(family),
                 std::string(family.prefix)) {
    refuse_other_vendors();
    symbols_.require(get_version_, "GetVersion");
    symbols_.require(get_unique_id_, "GetUniqueId");
    symbols_.require(comm_init_rank_, "CommInitRank");
    symbols_.require(comm_destroy_, "CommDestroy");
    symbols_.require(comm_get_async_error_, "CommGetAsyncError");
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
    find_exchanges();
    symbols_.find(gather_, "Gather");
    symbols_.find(scatter_, "Scatter");
    symbols_.find(get_last_error_, "GetLastError");
    symbols_.find(mem_alloc_, "MemAlloc");
    symbols_.find(mem_free_, "MemFree");
    symbols_.find(comm_register_, "CommRegister");
    symbols_.find(comm_deregister_, "CommDeregister");
    symbols_.find(window_register_, "CommWindowRegister");
    symbols_.find(window_deregister_, "CommWindowDeregister");
    require(get_version_(&version_), "GetVersion", nullptr);
    // As 2.8 and older write it: 2708 is 2.7.8.
    if (version_ < 10000) version_ = version_ / 1000 * 10000 + version_ % 1000;
    if (version_ < family_.oldest_version) {
      throw MissingError(symbols_.path() + " is version " + text_of(version_) + "; " +
                         std::to_string(family_.oldest_version / 10000) + "." +
                         std::to_string(family_.oldest_version / 100 % 100) +
                         " or newer is needed: choose another with --ccl-path");
    }
  }

  std::string_view name() const { return family_.name; }

  void describe(CclInfo& info) const {
    info.version = text_of(version_);
    symbols_.describe(info);
    info.id_bytes = sizeof(UniqueId);
    for (size_t i = 0; i < kDtypes.size(); ++i) {
      bool recent = version_ >= family_.fp8_version || size_t(Dtype::fp8e4m3) > i;
      if (family_.dtypes[i] != kUnavailable && recent) info.dtypes.emplace_back(kDtypes[i].name);
    }
    info.reduced_dtypes = info.dtypes;
    for (size_t i = 0; i < kReductions.size(); ++i) {
      if (family_.reductions[i] != kUnavailable) info.reductions.emplace_back(kReductions[i]);
    }
  }

  const Symbols& symbols() const { return symbols_; }

  std::vector<uint8_t> make_id() const {
    UniqueId id;
    require(get_unique_id_(&id), "GetUniqueId", nullptr);
    auto bytes = reinterpret_cast<const uint8_t*>(&id);
    return {bytes, bytes + sizeof(id)};
  }

  Comm join(Device& device, std::span<const uint8_t> bytes, int rank, int ranks) const {
    symbols_.require_runtime_of(device);
    UniqueId id;
    std::memcpy(&id, bytes.data(), sizeof(id));
    Comm comm = nullptr;
    require(comm_init_rank_(&comm, ranks, id, rank), "CommInitRank", nullptr);
    return comm;
  }
  void leave(Comm comm) const noexcept { comm_destroy_(comm); }
  void check(Comm comm) const {
    Result state = kSuccess;
    require(comm_get_async_error_(comm, &state), "CommGetAsyncError", comm);
    if (state != kInProgress) require(state, "CommGetAsyncError", comm);
  }

  int dtype(const Operation& op, const Device& device) const {
    int value = family_.dtypes[static_cast<size_t>(op.dtype)];
    if (value == kUnavailable) {
      throw UnsupportedError(itself() + " has no " + std::string(cclmark::name(op.dtype)));
    }
    if (op.dtype == Dtype::fp8e4m3 || op.dtype == Dtype::fp8e5m2) require_fp8(op, device.info());
    return value;
  }
  int reduction(const Operation& op) const {
    int value = family_.reductions[static_cast<size_t>(op.reduction)];
    if (value == kUnavailable) {
      throw UnsupportedError(std::string(family_.name) + " has no reduction " +
                             std::string(cclmark::name(op.reduction)));
    }
    return value;
  }

  void all_reduce(const void* from, void* to, size_t count, int dtype, int op, Comm comm,
                  void* stream) const {
    require(all_reduce_(from, to, count, dtype, op, comm, stream), "AllReduce", comm);
  }
  void all_gather(const void* from, void* to, size_t count, int dtype, Comm comm,
                  void* stream) const {
    require(all_gather_(from, to, count, dtype, comm, stream), "AllGather", comm);
  }
  void reduce_scatter(const void* from, void* to, size_t count, int dtype, int op, Comm comm,
                      void* stream) const {
    require(reduce_scatter_(from, to, count, dtype, op, comm, stream), "ReduceScatter", comm);
  }
  void broadcast(const void* from, void* to, size_t count, int dtype, int root, Comm comm,
                 void* stream) const {
    require(broadcast_(from, to, count, dtype, root, comm, stream), "Broadcast", comm);
  }
  void reduce(const void* from, void* to, size_t count, int dtype, int op, int root, Comm comm,
              void* stream) const {
    require(reduce_(from, to, count, dtype, op, root, comm, stream), "Reduce", comm);
  }
  void send(const void* from, size_t count, int dtype, int peer, Comm comm, void* stream) const {
    require(send_(from, count, dtype, peer, comm, stream), "Send", comm);
  }
  void recv(void* to, size_t count, int dtype, int peer, Comm comm, void* stream) const {
    require(recv_(to, count, dtype, peer, comm, stream), "Recv", comm);
  }
  void group_start(Comm comm) const { require(group_start_(), "GroupStart", comm); }
  void group_end(Comm comm) const { require(group_end_(), "GroupEnd", comm); }

  const char* own_route(Collective collective) const {
    bool native = (collective == Collective::alltoall &&
                   (alltoall_ != nullptr || alltoall_twice_ != nullptr)) ||
                  (collective == Collective::alltoallv &&
                   (alltoallv_ != nullptr || alltoallv_twice_ != nullptr)) ||
                  (collective == Collective::gather && gather_ != nullptr) ||
                  (collective == Collective::scatter && scatter_ != nullptr);
    return native ? "native" : nullptr;
  }

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
          require(alltoall(s, d, op.count, dtype, comm, stream), alltoall_name_, comm);
        });
      default:
        return make_call(
            [=, this, parts = UnevenParts(op, seat.rank, seat.ranks)](const void* s, void* d) {
              require(alltoallv(s, d, parts, dtype, comm, stream), alltoallv_name_, comm);
            });
    }
  }

  /// Memory that the library takes for its own way of registering. Raises OutOfMemoryError,
  /// UnsupportedError.
  void* allocate(size_t bytes, Registration registration, Comm comm) const {
    require_registration(registration);
    void* memory = nullptr;
    try {
      require(mem_alloc_(&memory, bytes), "MemAlloc", comm);
    } catch (const Error& error) {
      throw OutOfMemoryError(error.what());
    }
    return memory;
  }

  /// Returns what it is known by from then on.
  void* enroll(void* memory, size_t bytes, Registration registration, Comm comm) const {
    void* handle = nullptr;
    if (registration == Registration::local) {
      require(comm_register_(comm, memory, bytes, &handle), "CommRegister", comm);
    } else {
      require(window_register_(comm, memory, bytes, &handle, kSymmetricWindow),
              "CommWindowRegister", comm);
    }
    if (handle == nullptr) {
      throw UnsupportedError(
          "the library did not register the buffers: it accepts the call, but "
          "lacks what registration needs here (see its own log)");
    }
    return handle;
  }

  void dismiss(void* handle, Registration registration, Comm comm) const noexcept {
    if (registration == Registration::local) {
      comm_deregister_(comm, handle);
    } else {
      window_deregister_(comm, handle);
    }
  }
  void release(void* memory) const noexcept { mem_free_(memory); }

 private:
  static std::vector<std::string> files_of(const Family& family) {
    std::vector<std::string> files;
    for (const char* soname : family.sonames) {
      if (soname != nullptr) files.emplace_back(soname);
    }
    return files;
  }

  static std::string text_of(int version) {
    return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
  }
  std::string itself() const { return std::string(family_.name) + " " + text_of(version_); }

  void find_exchanges() {
    const Exchanges& names = family_.exchanges;
    alltoall_name_ = spelled(names.alltoall, names.older_alltoall);
    alltoallv_name_ = spelled(names.alltoallv, names.older_alltoallv);
    if (names.typed_twice) {
      symbols_.find(alltoall_twice_, alltoall_name_);
      symbols_.find(alltoallv_twice_, alltoallv_name_);
      return;
    }
    symbols_.find(alltoall_, alltoall_name_);
    if (alltoallv_name_ != nullptr) symbols_.find(alltoallv_, alltoallv_name_);
  }

  const char* spelled(const char* name, const char* older) const {
    bool as_before = older != nullptr && !symbols_.have(symbols_.prefix() + name) &&
                     symbols_.have(symbols_.prefix() + older);
    return as_before ? older : name;
  }

  Result alltoall(const void* from, void* to, size_t count, int dtype, Comm comm,
                  void* stream) const {
    if (alltoall_ != nullptr) return alltoall_(from, to, count, dtype, comm, stream);
    return alltoall_twice_(from, count, dtype, to, count, dtype, comm, stream);
  }

  Result alltoallv(const void* from, void* to, const UnevenParts& parts, int dtype, Comm comm,
                   void* stream) const {
    const size_t *sent = parts.send_counts.data(), *sent_at = parts.send_offsets.data();
    const size_t *got = parts.receive_counts.data(), *got_at = parts.receive_offsets.data();
    if (alltoallv_ != nullptr) {
      return alltoallv_(from, sent, sent_at, to, got, got_at, dtype, comm, stream);
    }
    return alltoallv_twice_(from, sent, sent_at, dtype, to, got, got_at, dtype, comm, stream);
  }

  void require_fp8(const Operation& op, const DeviceInfo& device) const {
    if (version_ < family_.fp8_version) {
      throw UnsupportedError(itself() + " has no 8-bit floats (" + text_of(family_.fp8_version) +
                             " or newer has)");
    }
    if (!info(op.collective).reduces) return;
    if (family_.fp8_halved && op.reduction == Reduction::prod) {
      throw UnsupportedError(itself() +
                             " multiplies 8-bit floats of two kinds, OCP or FNUZ by the device: "
                             "what a product should be is not known");
    }
    if (device.architecture >= family_.fp8_architecture) return;
    throw UnsupportedError(
        itself() + " reduces 8-bit floats from compute capability 9.0 on; this is " +
        std::to_string(device.architecture / 10) + "." + std::to_string(device.architecture % 10));
  }

  void require_registration(Registration registration) const {
    bool local = registration == Registration::local;
    bool possible = mem_alloc_ != nullptr && mem_free_ != nullptr &&
                    (local ? comm_register_ != nullptr && comm_deregister_ != nullptr
                           : window_register_ != nullptr && window_deregister_ != nullptr);
    if (possible) return;
    throw UnsupportedError(itself() + (local ? " has no CommRegister (NCCL: 2.19 or newer)"
                                             : " has no symmetric windows (NCCL: 2.27 or newer)"));
  }

  bool has(const Family& other) const { return symbols_.have(other.mark); }

  /// Several vendors ship libraries of one name whose functions have the same names and take
  /// handles of different runtimes.
  void refuse_other_vendors() const {
    if (family_.mark == nullptr) return refuse_marked_ones();
    if (has(family_)) return;
    std::string own = family_.mark;
    std::string what = " is not " + std::string(family_.vendor) + ": it has no " + own;
    std::string_view known_as;
    for (const Family& other : kFamilies) {
      if (&other == &family_ || other.prefix != family_.prefix) continue;
      if (other.mark == nullptr && known_as.empty()) {
        what += "; it may be " + std::string(other.vendor);
        known_as = other.name;
      } else if (other.mark != nullptr && has(other)) {
        what = " is " + std::string(other.vendor) + ", not " + family_.vendor + ": it has " +
               other.mark + " and no " + own;
        known_as = other.name;
        break;
      }
    }
    throw MissingError(symbols_.path() + what + ". Choose another with --ccl-path or " +
                       family_.variable +
                       (known_as.empty() ? "" : ", or --ccl " + std::string(known_as)));
  }

  /// For a vendor whose library has no function of its own to be known by.
  void refuse_marked_ones() const {
    if (family_.derived) return;
    for (const Family& other : kFamilies) {
      if (other.prefix != family_.prefix || other.mark == nullptr || !has(other)) continue;
      throw MissingError(symbols_.path() + " is " + std::string(other.vendor) + ", not " +
                         family_.vendor + ": it has " + other.mark +
                         ". Choose another with --ccl-path or " + family_.variable + ", or --ccl " +
                         std::string(other.name));
    }
  }

  void require(Result code, const char* call, Comm comm) const {
    if (code == kSuccess) [[likely]]
      return;
    std::string text = get_error_string_(code);
    const char* last = get_last_error_ != nullptr ? get_last_error_(comm) : nullptr;
    if (last != nullptr && *last != '\0') text += ": " + std::string(last);
    throw Error(Error::describe(symbols_.prefix() + call, code, text));
  }

  const Family& family_;
  Symbols symbols_;
  int version_ = 0;
  Result (*get_version_)(int*);
  Result (*get_unique_id_)(UniqueId*);
  Result (*comm_init_rank_)(Comm*, int, UniqueId, int);
  Result (*comm_destroy_)(Comm);
  Result (*comm_get_async_error_)(Comm, Result*);
  const char* (*get_error_string_)(Result);
  Result (*group_start_)();
  Result (*group_end_)();
  Result (*all_reduce_)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*all_gather_)(const void*, void*, size_t, int, Comm, void*);
  Result (*reduce_scatter_)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*broadcast_)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*reduce_)(const void*, void*, size_t, int, int, int, Comm, void*);
  Result (*send_)(const void*, size_t, int, int, Comm, void*);
  Result (*recv_)(void*, size_t, int, int, Comm, void*);
  Result (*gather_)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*scatter_)(const void*, void*, size_t, int, int, Comm, void*);
  const char* (*get_last_error_)(Comm) = nullptr;
  Result (*mem_alloc_)(void**, size_t);
  Result (*mem_free_)(void*);
  Result (*comm_register_)(Comm, void*, size_t, void**);
  Result (*comm_deregister_)(Comm, void*);
  Result (*window_register_)(Comm, void*, size_t, Window*, int);
  Result (*window_deregister_)(Comm, Window);
  const char* alltoall_name_ = nullptr;
  const char* alltoallv_name_ = nullptr;
  // One of each two, see Exchanges.
  Result (*alltoall_)(const void*, void*, size_t, int, Comm, void*) = nullptr;
  Result (*alltoall_twice_)(const void*, size_t, int, void*, size_t, int, Comm, void*) = nullptr;
  Result (*alltoallv_)(const void*, const size_t*, const size_t*, void*, const size_t*,
                       const size_t*, int, Comm, void*) = nullptr;
  Result (*alltoallv_twice_)(const void*, const size_t*, const size_t*, int, void*, const size_t*,
                             const size_t*, int, Comm, void*) = nullptr;
};

/// With buffers that the library knows.
class NcclCommunicator final : public GroupedCommunicator<Nccl> {
 public:
  using GroupedCommunicator::GroupedCommunicator;

  void* allocate(size_t bytes, Registration registration) override {
    if (registration == Registration::none) return device_.allocate(bytes);
    return api_.allocate(bytes, registration, comm_);
  }

  void enroll(void* memory, size_t bytes, Registration registration) override {
    if (registration == Registration::none) return;
    enrolled_.emplace_back(memory, api_.enroll(memory, bytes, registration, comm_));
  }

  void release(void* memory, Registration registration) noexcept override {
    if (registration == Registration::none) return device_.release(memory);
    auto of_it = [memory](const auto& pair) { return pair.first == memory; };
    if (auto found = std::ranges::find_if(enrolled_, of_it); found != enrolled_.end()) {
      api_.dismiss(found->second, registration, comm_);
      enrolled_.erase(found);
    }
    api_.release(memory);
  }

 private:
  std::vector<std::pair<void*, void*>> enrolled_;  // memory, and what the library knows it by
};

}  // namespace

std::unique_ptr<Ccl> open_nccl_family(std::string_view name, const CclPlaces& places) {
  for (const Family& family : kFamilies) {
    if (family.name == name) {
      return std::make_unique<GroupedLibrary<Nccl, NcclCommunicator>>(family, places);
    }
  }
  throw Error(std::string(name) + " is not in the table of NCCL-shaped libraries");
}

}  // namespace cclmark
