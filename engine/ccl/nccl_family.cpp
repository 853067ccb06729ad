// Every library that speaks NCCL's interface: one table row each, one implementation for all.

#include <array>
#include <cstdlib>
#include <cstring>

#include "ccl/call_of.hpp"
#include "ccl/communicator.hpp"
#include "ccl/one_runtime.hpp"
#include "collective/table.hpp"
#include "core/library.hpp"

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
  /// Count and type are given for what is sent and for what is received.
  bool typed_twice = false;
};

struct Family {
  std::string_view name;
  const char* vendor;
  std::string_view prefix;
  std::array<const char*, 3> sonames;
  const char* variable;
  int oldest_version;
  /// The library's values for Dtype and Reduction; kUnavailable where it has none.
  std::array<int, kDtypes.size()> dtypes;
  std::array<int, kReductions.size()> reductions;
  /// Oldest version and device architecture that reduce 8-bit floats.
  int fp8_version;
  int fp8_architecture;
  /// A function, without the prefix, by which this vendor's library is told from others' of the
  /// same name and prefix; nullptr where nothing tells.
  const char* mark = nullptr;
  Exchanges exchanges = {};
};

constexpr int kNone = kUnavailable;
constexpr std::array<int, kDtypes.size()> kAllDtypes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
constexpr std::array<int, kDtypes.size()> kWithoutFp8 = {0, 1, 2, 3, 4,     5,
                                                         6, 7, 8, 9, kNone, kNone};
constexpr std::array<int, kReductions.size()> kAllReductions = {0, 1, 2, 3, 4};
constexpr Exchanges kLikeRccl = {"AllToAll", "AllToAllv"};

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
     22400,
     0,
     "AllToAllv",
     kLikeRccl},
    {"maca-mccl",
     "MetaX's MCCL",
     "mccl",
     {"libmccl.so", "/opt/maca/lib/libmccl.so"},
     "CCLMARK_MACA_MCCL_LIBRARY",
     20700,
     kWithoutFp8,
     kAllReductions,
     0,
     0,
     "CommMcDevice",
     kLikeRccl},
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
     "CommMuDevice"},
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
     {"Alltoall", "AlltoAllv", true}},
    {"ixccl",
     "Iluvatar's IXCCL",
     "nccl",
     {"/usr/local/corex/lib/libnccl.so", "libnccl.so.2", "libnccl.so"},
     "CCLMARK_IXCCL_LIBRARY",
     20700,
     kWithoutFp8,
     kAllReductions,
     0,
     0},
    {"duccl",
     "Hygon's DUCCL",
     "nccl",
     {"libnccl.so.2", "libnccl.so"},
     "CCLMARK_DUCCL_LIBRARY",
     20700,
     kWithoutFp8,
     kAllReductions,
     0,
     0},
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

/// The library's functions. Those after `recv` are optional: absent symbols, absent abilities.
class Api {
 public:
  Api(const Family& row, const CclPlaces& places)
      : family(row),
        library(Library::open(std::string(row.name), find(row, places),
                              places.chosen.empty() ? row.variable : "")) {
    refuse_other_vendors();
    resolve(get_version, "GetVersion");
    resolve(get_unique_id, "GetUniqueId");
    resolve(comm_init_rank, "CommInitRank");
    resolve(comm_destroy, "CommDestroy");
    resolve(comm_get_async_error, "CommGetAsyncError");
    resolve(get_error_string, "GetErrorString");
    resolve(group_start, "GroupStart");
    resolve(group_end, "GroupEnd");
    resolve(all_reduce, "AllReduce");
    resolve(all_gather, "AllGather");
    resolve(reduce_scatter, "ReduceScatter");
    resolve(broadcast, "Broadcast");
    resolve(reduce, "Reduce");
    resolve(send, "Send");
    resolve(recv, "Recv");
    resolve_exchanges();
    resolve_optional(gather, "Gather");
    resolve_optional(scatter, "Scatter");
    resolve_optional(get_last_error, "GetLastError");
    resolve_optional(mem_alloc, "MemAlloc");
    resolve_optional(mem_free, "MemFree");
    resolve_optional(comm_register, "CommRegister");
    resolve_optional(comm_deregister, "CommDeregister");
    resolve_optional(window_register, "CommWindowRegister");
    resolve_optional(window_deregister, "CommWindowDeregister");
    check(get_version(&version), "GetVersion", nullptr);
    if (version < family.oldest_version) {
      throw MissingError(library.path() + " is version " + version_text() + "; " +
                         std::to_string(family.oldest_version / 10000) + "." +
                         std::to_string(family.oldest_version / 100 % 100) +
                         " or newer is needed: choose another with --ccl-path");
    }
  }

  std::string version_text() const {
    return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
  }

  void check(Result code, const char* call, Comm comm) const {
    if (code == kSuccess) [[likely]]
      return;
    fail(code, call, comm);
  }

  const Family& family;
  Library library;
  int version = 0;

  Result (*get_version)(int*);
  Result (*get_unique_id)(UniqueId*);
  Result (*comm_init_rank)(Comm*, int, UniqueId, int);
  Result (*comm_destroy)(Comm);
  Result (*comm_get_async_error)(Comm, Result*);
  const char* (*get_error_string)(Result);
  Result (*group_start)();
  Result (*group_end)();
  Result (*all_reduce)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*all_gather)(const void*, void*, size_t, int, Comm, void*);
  Result (*reduce_scatter)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*broadcast)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*reduce)(const void*, void*, size_t, int, int, int, Comm, void*);
  Result (*send)(const void*, size_t, int, int, Comm, void*);
  Result (*recv)(void*, size_t, int, int, Comm, void*);
  Result (*gather)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*scatter)(const void*, void*, size_t, int, int, Comm, void*);
  const char* (*get_last_error)(Comm);
  Result (*mem_alloc)(void**, size_t);
  Result (*mem_free)(void*);
  Result (*comm_register)(Comm, void*, size_t, void**);
  Result (*comm_deregister)(Comm, void*);
  Result (*window_register)(Comm, void*, size_t, Window*, int);
  Result (*window_deregister)(Comm, Window);

  std::vector<std::string> present, absent;

  bool exchanges_evenly() const { return alltoall_ != nullptr || alltoall_twice_ != nullptr; }
  Result alltoall(const void* from, void* to, size_t count, int dtype, Comm comm,
                  void* stream) const {
    if (alltoall_ != nullptr) return alltoall_(from, to, count, dtype, comm, stream);
    return alltoall_twice_(from, count, dtype, to, count, dtype, comm, stream);
  }

  bool exchanges_unevenly() const { return alltoallv_ != nullptr || alltoallv_twice_ != nullptr; }
  Result alltoallv(const void* from, void* to, const UnevenParts& parts, int dtype, Comm comm,
                   void* stream) const {
    const size_t *sent = parts.send_counts.data(), *sent_at = parts.send_offsets.data();
    const size_t *got = parts.receive_counts.data(), *got_at = parts.receive_offsets.data();
    if (alltoallv_ != nullptr) {
      return alltoallv_(from, sent, sent_at, to, got, got_at, dtype, comm, stream);
    }
    return alltoallv_twice_(from, sent, sent_at, dtype, to, got, got_at, dtype, comm, stream);
  }

 private:
  // One of each two, see Exchanges.
  Result (*alltoall_)(const void*, void*, size_t, int, Comm, void*) = nullptr;
  Result (*alltoall_twice_)(const void*, size_t, int, void*, size_t, int, Comm, void*) = nullptr;
  Result (*alltoallv_)(const void*, const size_t*, const size_t*, void*, const size_t*,
                       const size_t*, int, Comm, void*) = nullptr;
  Result (*alltoallv_twice_)(const void*, const size_t*, const size_t*, int, void*, const size_t*,
                             const size_t*, int, Comm, void*) = nullptr;

  void resolve_exchanges() {
    const Exchanges& names = family.exchanges;
    if (names.typed_twice) {
      resolve_optional(alltoall_twice_, names.alltoall);
      resolve_optional(alltoallv_twice_, names.alltoallv);
      return;
    }
    resolve_optional(alltoall_, names.alltoall);
    if (names.alltoallv != nullptr) resolve_optional(alltoallv_, names.alltoallv);
  }

  bool has(const Family& other) const {
    return library.optional<void>((std::string(other.prefix) + other.mark).c_str()) != nullptr;
  }

  /// Several vendors ship libraries of one name whose functions have the same names and take
  /// handles of different runtimes.
  void refuse_other_vendors() const {
    if (family.mark == nullptr) return refuse_marked_ones();
    if (has(family)) return;
    std::string own = std::string(family.prefix) + family.mark;
    std::string what = " is not " + std::string(family.vendor) + ": it has no " + own;
    std::string_view known_as;
    for (const Family& other : kFamilies) {
      if (&other == &family || other.prefix != family.prefix) continue;
      if (other.mark == nullptr && known_as.empty()) {
        what += "; it may be " + std::string(other.vendor);
        known_as = other.name;
      } else if (other.mark != nullptr && has(other)) {
        what = " is " + std::string(other.vendor) + ", not " + family.vendor + ": it has " +
               std::string(other.prefix) + other.mark + " and no " + own;
        known_as = other.name;
        break;
      }
    }
    throw MissingError(library.path() + what + ". Choose another with --ccl-path or " +
                       family.variable +
                       (known_as.empty() ? "" : ", or --ccl " + std::string(known_as)));
  }

  /// For a vendor whose library has no function of its own to be known by.
  void refuse_marked_ones() const {
    for (const Family& other : kFamilies) {
      if (other.prefix != family.prefix || other.mark == nullptr || !has(other)) continue;
      throw MissingError(library.path() + " is " + std::string(other.vendor) + ", not " +
                         family.vendor + ": it has " + std::string(other.prefix) + other.mark +
                         ". Choose another with --ccl-path or " + family.variable + ", or --ccl " +
                         std::string(other.name));
    }
  }

  static std::vector<std::string> find(const Family& family, const CclPlaces& places) {
    if (!places.chosen.empty()) return {places.chosen};
    if (const char* variable = std::getenv(family.variable)) return {variable};
    std::vector<std::string> candidates = places.wheels;
    for (const char* soname : family.sonames) {
      if (soname != nullptr) candidates.emplace_back(soname);
    }
    return candidates;
  }

  template <typename R, typename... Arguments>
  void resolve(R (*&function)(Arguments...), const char* symbol) {
    function = library.require<R(Arguments...)>((std::string(family.prefix) + symbol).c_str());
  }

  template <typename R, typename... Arguments>
  void resolve_optional(R (*&function)(Arguments...), const char* symbol) {
    function = library.optional<R(Arguments...)>((std::string(family.prefix) + symbol).c_str());
    (function != nullptr ? present : absent).emplace_back(symbol);
  }

  [[noreturn]] void fail(Result code, const char* call, Comm comm) const {
    std::string text = get_error_string(code);
    const char* last = get_last_error != nullptr ? get_last_error(comm) : nullptr;
    if (last != nullptr && *last != '\0') text += ": " + std::string(last);
    throw Error(Error::describe(std::string(family.prefix) + call, code, text));
  }
};

/// How an operation is done with the functions that the library has.
std::string route_of(const Api& api, Collective collective) {
  switch (collective) {
    case Collective::alltoall:
      return api.exchanges_evenly() ? "native" : "grouped send/recv";
    case Collective::gather:
      return api.gather != nullptr ? "native" : "grouped send/recv";
    case Collective::scatter:
      return api.scatter != nullptr ? "native" : "grouped send/recv";
    case Collective::alltoallv:
      return api.exchanges_unevenly() ? "native" : "grouped send/recv";
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

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const Api& api, Device& device, std::span<const uint8_t> id, Team& team)
      : api_(api), device_(device), rank_(team.rank()), size_(team.size()) {
    UniqueId unique_id;
    if (id.size() != sizeof(unique_id)) throw Error("the communicator id has the wrong size");
    std::memcpy(&unique_id, id.data(), sizeof(unique_id));
    api_.check(api_.comm_init_rank(&comm_, size_, unique_id, rank_), "CommInitRank", nullptr);
  }

  ~NcclCommunicator() override {
    if (comm_ != nullptr) api_.comm_destroy(comm_);
  }

  std::unique_ptr<Call> bind(const Operation& op, void* stream) override {
    int dtype = dtype_value(op);
    switch (op.collective) {
      case Collective::all_reduce:
        return make_call([=, this, r = reduction_value(op)](const void* s, void* d) {
          api_.check(api_.all_reduce(s, d, op.count, dtype, r, comm_, stream), "AllReduce", comm_);
        });
      case Collective::all_gather:
        return make_call([=, this](const void* s, void* d) {
          api_.check(api_.all_gather(s, d, op.count, dtype, comm_, stream), "AllGather", comm_);
        });
      case Collective::reduce_scatter:
        return make_call([=, this, r = reduction_value(op)](const void* s, void* d) {
          api_.check(api_.reduce_scatter(s, d, op.count, dtype, r, comm_, stream), "ReduceScatter",
                     comm_);
        });
      case Collective::broadcast:
        return make_call([=, this](const void* s, void* d) {
          api_.check(api_.broadcast(s, d, op.count, dtype, op.root, comm_, stream), "Broadcast",
                     comm_);
        });
      case Collective::reduce:
        return make_call([=, this, r = reduction_value(op)](const void* s, void* d) {
          api_.check(api_.reduce(s, d, op.count, dtype, r, op.root, comm_, stream), "Reduce",
                     comm_);
        });
      case Collective::alltoall:
        if (api_.exchanges_evenly()) {
          return make_call([=, this](const void* s, void* d) {
            api_.check(api_.alltoall(s, d, op.count, dtype, comm_, stream),
                       api_.family.exchanges.alltoall, comm_);
          });
        }
        return bind_exchange(op, dtype, stream);
      case Collective::alltoallv:
        if (api_.exchanges_unevenly()) {
          return make_call(
              [=, this, parts = UnevenParts(op, rank_, size_)](const void* s, void* d) {
                api_.check(api_.alltoallv(s, d, parts, dtype, comm_, stream),
                           api_.family.exchanges.alltoallv, comm_);
              });
        }
        return bind_exchange(op, dtype, stream);
      case Collective::gather:
        if (api_.gather != nullptr) {
          return make_call([=, this](const void* s, void* d) {
            api_.check(api_.gather(s, d, op.count, dtype, op.root, comm_, stream), "Gather", comm_);
          });
        }
        return bind_exchange(op, dtype, stream);
      case Collective::scatter:
        if (api_.scatter != nullptr) {
          return make_call([=, this](const void* s, void* d) {
            api_.check(api_.scatter(s, d, op.count, dtype, op.root, comm_, stream), "Scatter",
                       comm_);
          });
        }
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

  std::string route(const Operation& op) const override { return route_of(api_, op.collective); }

  void begin_group() override { api_.check(api_.group_start(), "GroupStart", comm_); }
  void end_group() override { api_.check(api_.group_end(), "GroupEnd", comm_); }

  void* allocate(size_t bytes, Registration registration) override {
    if (registration == Registration::none) return device_.allocate(bytes);
    require_registration(registration);
    void* memory = nullptr;
    try {
      api_.check(api_.mem_alloc(&memory, bytes), "MemAlloc", comm_);
    } catch (const Error& error) {
      throw OutOfMemoryError(error.what());
    }
    return memory;
  }

  void enroll(void* memory, size_t bytes, Registration registration) override {
    if (registration == Registration::none) return;
    void* handle = nullptr;
    if (registration == Registration::local) {
      api_.check(api_.comm_register(comm_, memory, bytes, &handle), "CommRegister", comm_);
    } else {
      api_.check(api_.window_register(comm_, memory, bytes, &handle, kSymmetricWindow),
                 "CommWindowRegister", comm_);
    }
    if (handle == nullptr) {
      throw UnsupportedError(
          "the library did not register the buffers: it accepts the call, but "
          "lacks what registration needs here (see its own log)");
    }
    registered_.emplace_back(memory, handle);
  }

  void release(void* memory, Registration registration) noexcept override {
    if (registration == Registration::none) return device_.release(memory);
    for (auto entry = registered_.begin(); entry != registered_.end(); ++entry) {
      if (entry->first != memory) continue;
      if (registration == Registration::local) {
        api_.comm_deregister(comm_, entry->second);
      } else {
        api_.window_deregister(comm_, entry->second);
      }
      registered_.erase(entry);
      break;
    }
    api_.mem_free(memory);
  }

  void check() override {
    Result state = kSuccess;
    api_.check(api_.comm_get_async_error(comm_, &state), "CommGetAsyncError", comm_);
    if (state != kInProgress) api_.check(state, "CommGetAsyncError", comm_);
  }

 private:
  int dtype_value(const Operation& op) const {
    int value = api_.family.dtypes[static_cast<size_t>(op.dtype)];
    std::string what = std::string(api_.family.name) + " " + api_.version_text();
    if (value == kUnavailable) {
      throw UnsupportedError(what + " has no " + std::string(name(op.dtype)));
    }
    if (op.dtype == Dtype::fp8e4m3 || op.dtype == Dtype::fp8e5m2) {
      if (api_.version < api_.family.fp8_version) {
        throw UnsupportedError(what + " has no 8-bit floats (2.24 or newer has)");
      }
      if (info(op.collective).reduces &&
          device_.info().architecture < api_.family.fp8_architecture) {
        throw UnsupportedError(what +
                               " reduces 8-bit floats from compute capability 9.0 on; this is " +
                               std::to_string(device_.info().architecture / 10) + "." +
                               std::to_string(device_.info().architecture % 10));
      }
    }
    return value;
  }

  int reduction_value(const Operation& op) const {
    int value = api_.family.reductions[static_cast<size_t>(op.reduction)];
    if (value == kUnavailable) {
      throw UnsupportedError(std::string(api_.family.name) + " has no reduction " +
                             std::string(name(op.reduction)));
    }
    return value;
  }

  /// Any exchange as one group of sends and receives, as users of the library write it.
  std::unique_ptr<Call> bind_exchange(Operation op, int dtype, void* stream) {
    op.matrix = matrix_of(op, size_);
    UnevenParts parts(op, rank_, size_);
    size_t width = size_bytes(op.dtype);
    return make_call([=, this](const void* s, void* d) {
      auto from = static_cast<const std::byte*>(s);
      auto to = static_cast<std::byte*>(d);
      api_.check(api_.group_start(), "GroupStart", comm_);
      for (int peer = 0; peer < size_; ++peer) {
        auto i = static_cast<size_t>(peer);
        if (parts.send_counts[i] > 0) {
          api_.check(api_.send(from + parts.send_offsets[i] * width, parts.send_counts[i], dtype,
                               peer, comm_, stream),
                     "Send", comm_);
        }
        if (parts.receive_counts[i] > 0) {
          api_.check(api_.recv(to + parts.receive_offsets[i] * width, parts.receive_counts[i],
                               dtype, peer, comm_, stream),
                     "Recv", comm_);
        }
      }
      api_.check(api_.group_end(), "GroupEnd", comm_);
    });
  }

  std::unique_ptr<Call> bind_ring_shift(const Operation& op, int dtype, void* stream) {
    int right = (rank_ + 1) % size_;
    int left = (rank_ + size_ - 1) % size_;
    return make_call([=, this, count = op.count](const void* s, void* d) {
      api_.check(api_.group_start(), "GroupStart", comm_);
      api_.check(api_.send(s, count, dtype, right, comm_, stream), "Send", comm_);
      api_.check(api_.recv(d, count, dtype, left, comm_, stream), "Recv", comm_);
      api_.check(api_.group_end(), "GroupEnd", comm_);
    });
  }

  /// There and back: each rank's second call waits on its stream for the first.
  std::unique_ptr<Call> bind_ping_pong(const Operation& op, int dtype, void* stream) {
    require_two_ranks(size_);
    int peer = 1 - rank_;
    auto give = [=, this, count = op.count](const void* s) {
      api_.check(api_.send(s, count, dtype, peer, comm_, stream), "Send", comm_);
    };
    auto take = [=, this, count = op.count](void* d) {
      api_.check(api_.recv(d, count, dtype, peer, comm_, stream), "Recv", comm_);
    };
    return make_call([give, take, first = rank_ == 0](const void* s, void* d) {
      if (first) give(s);
      take(d);
      if (!first) give(s);
    });
  }

  std::unique_ptr<Call> bind_barrier(void* stream) {
    if (barrier_memory_.data() == nullptr) barrier_memory_ = Buffer(device_, sizeof(float));
    int dtype = api_.family.dtypes[static_cast<size_t>(Dtype::float32)];
    int sum = api_.family.reductions[static_cast<size_t>(Reduction::sum)];
    void* word = barrier_memory_.data();
    return make_call([=, this](const void*, void*) {
      api_.check(api_.all_reduce(word, word, 1, dtype, sum, comm_, stream), "AllReduce", comm_);
    });
  }

  void require_registration(Registration registration) const {
    bool possible = api_.mem_alloc != nullptr && api_.mem_free != nullptr &&
                    (registration == Registration::local
                         ? api_.comm_register != nullptr && api_.comm_deregister != nullptr
                         : api_.window_register != nullptr && api_.window_deregister != nullptr);
    if (possible) return;
    throw UnsupportedError(std::string(api_.family.name) + " " + api_.version_text() +
                           (registration == Registration::local
                                ? " has no CommRegister (NCCL: 2.19 or newer)"
                                : " has no symmetric windows (NCCL: 2.27 or newer)"));
  }

  const Api& api_;
  Device& device_;
  int rank_;
  int size_;
  Comm comm_ = nullptr;
  Buffer barrier_memory_;
  std::vector<std::pair<void*, void*>> registered_;
};

class NcclLibrary final : public Ccl {
 public:
  NcclLibrary(const Family& family, const CclPlaces& places) : api_(family, places) {
    info_.name = family.name;
    info_.version = api_.version_text();
    info_.path = api_.library.path();
    info_.capabilities = api_.present;
    info_.missing = api_.absent;
    info_.id_bytes = sizeof(UniqueId);
    for (size_t i = 0; i < kDtypes.size(); ++i) {
      bool recent = api_.version >= family.fp8_version || size_t(Dtype::fp8e4m3) > i;
      if (family.dtypes[i] != kUnavailable && recent) info_.dtypes.emplace_back(kDtypes[i].name);
    }
    info_.reduced_dtypes = info_.dtypes;
    for (size_t i = 0; i < kReductions.size(); ++i) {
      if (family.reductions[i] != kUnavailable) info_.reductions.emplace_back(kReductions[i]);
    }
    for (size_t i = 0; i < kCollectives.size(); ++i) {
      info_.routes.emplace_back(kCollectives[i], route_of(api_, static_cast<Collective>(i)));
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
    require_one_runtime(device.info(), info_.path);
    return std::make_unique<NcclCommunicator>(api_, device, id, team);
  }

 private:
  Api api_;
  CclInfo info_;
};

}  // namespace

std::unique_ptr<Ccl> open_nccl_family(std::string_view name, const CclPlaces& places) {
  for (const Family& family : kFamilies) {
    if (family.name == name) return std::make_unique<NcclLibrary>(family, places);
  }
  throw Error(std::string(name) + " is not in the table of NCCL-shaped libraries");
}

}  // namespace cclmark
