// HCCL, the collective library of Huawei's CANN: a separate interface, with its own numbers for
// types, counts in 64 bits, ranks in 32, and neither groups nor gather nor averages.

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <optional>

#include "ccl/call_of.hpp"
#include "ccl/communicator.hpp"
#include "collective/table.hpp"
#include "core/library.hpp"
#include "device/acl.hpp"

namespace cclmark {
namespace {

struct RootInfo {
  char bytes[4108];
};
using Comm = void*;
using Result = int;

constexpr Result kNotSupported = 5;

enum Direction : int { kSend, kReceive };

/// HcclSendRecvItem.
struct Item {
  int direction;
  void* memory;
  uint64_t count;
  int dtype;
  uint32_t peer;
};
static_assert(sizeof(Item) == 32);

/// The library's functions. Those after `comm_destroy` are optional.
class Api {
 public:
  Api(const CclDescription& about, const CclPlaces& places)
      : description(about), library(open(about, places)) {
    // Newer releases keep what makes communicators in a library beside.
    if (library.optional<char>("HcclGetRootInfo") == nullptr) management_ = open_management();
    resolve(get_root_info, "GetRootInfo");
    resolve(comm_init, "CommInitRootInfo");
    resolve(comm_destroy, "CommDestroy");
    resolve_operation(all_reduce, "AllReduce");
    resolve_operation(all_gather, "AllGather");
    resolve_operation(reduce_scatter, "ReduceScatter");
    resolve_operation(broadcast, "Broadcast");
    resolve_operation(send, "Send");
    resolve_operation(recv, "Recv");
    resolve_optional(reduce, "Reduce");
    resolve_optional(scatter, "Scatter");
    resolve_optional(alltoall, "AlltoAll");
    resolve_optional(alltoallv, "AlltoAllV");
    resolve_optional(batch_send_recv, "BatchSendRecv");
    resolve_optional(barrier, "Barrier");
    resolve_optional(get_error_string, "GetErrorString");
    resolve_optional(get_async_error, "GetCommAsyncError");
  }

  void check(Result code, const char* call) const {
    if (code == 0) [[likely]]
      return;
    fail(code, call);
  }

  const CclDescription description;
  Library library;

  Result (*get_root_info)(RootInfo*);
  Result (*comm_init)(uint32_t, const RootInfo*, uint32_t, Comm*);
  Result (*comm_destroy)(Comm);
  Result (*all_reduce)(const void*, void*, uint64_t, int, int, Comm, void*);
  Result (*all_gather)(const void*, void*, uint64_t, int, Comm, void*);
  Result (*reduce_scatter)(const void*, void*, uint64_t, int, int, Comm, void*);
  Result (*broadcast)(void*, uint64_t, int, uint32_t, Comm, void*);
  Result (*send)(const void*, uint64_t, int, uint32_t, Comm, void*);
  Result (*recv)(void*, uint64_t, int, uint32_t, Comm, void*);
  Result (*reduce)(const void*, void*, uint64_t, int, int, uint32_t, Comm, void*);
  Result (*scatter)(const void*, void*, uint64_t, int, uint32_t, Comm, void*);
  Result (*alltoall)(const void*, uint64_t, int, void*, uint64_t, int, Comm, void*);
  Result (*alltoallv)(const void*, const uint64_t*, const uint64_t*, int, void*, const uint64_t*,
                      const uint64_t*, int, Comm, void*);
  Result (*batch_send_recv)(Item*, uint32_t, Comm, void*);
  Result (*barrier)(Comm, void*);
  const char* (*get_error_string)(Result);
  Result (*get_async_error)(Comm, Result*);

  std::vector<std::string> present, absent;

 private:
  static Library open(const CclDescription& description, const CclPlaces& places) {
    const std::string& variable = description.variable;
    std::vector<std::string> files;
    for (const std::string& file : description.files) {
      bool is_path = file.find('/') != std::string::npos;
      std::vector<std::string> places_of_it =
          is_path ? std::vector<std::string>{file} : cann_files(file);
      files.insert(files.end(), places_of_it.begin(), places_of_it.end());
    }
    if (const char* chosen = setting(variable.c_str())) files = {chosen};
    if (!places.chosen.empty()) files = {places.chosen};
    try {
      return Library::open("HCCL (libhccl)", files, places.chosen.empty() ? variable : "");
    } catch (const MissingError& error) {
      throw MissingError(error.what() + std::string(kCannAdvice));
    }
  }

  Library open_management() const {
    std::string beside = library.path().substr(0, library.path().rfind('/') + 1) + "libhcomm.so";
    try {
      return Library::open("libhcomm", {beside, "libhcomm.so"}, "");
    } catch (const MissingError& error) {
      throw MissingError(library.path() +
                         " has no HcclGetRootInfo: it is not HCCL, or its part that creates "
                         "communicators is missing. " +
                         error.what());
    }
  }

  template <typename Function>
  Function* find(const std::string& symbol) const {
    Function* function = library.optional<Function>(symbol.c_str());
    if (function == nullptr && management_) {
      function = management_->optional<Function>(symbol.c_str());
    }
    return function;
  }

  template <typename R, typename... Arguments>
  void resolve(R (*&function)(Arguments...), const char* name) {
    std::string symbol = description.prefix + name;
    function = find<R(Arguments...)>(symbol);
    if (function == nullptr) function = library.require<R(Arguments...)>(symbol.c_str());
  }

  template <typename R, typename... Arguments>
  void resolve_optional(R (*&function)(Arguments...), const char* name) {
    function = find<R(Arguments...)>(description.prefix + name);
    (function != nullptr ? present : absent).emplace_back(name);
  }

  /// One that every release so far has: not among the capabilities.
  template <typename R, typename... Arguments>
  void resolve_operation(R (*&function)(Arguments...), const char* name) {
    function = find<R(Arguments...)>(description.prefix + name);
    if (function == nullptr) absent.emplace_back(name);
  }

  [[noreturn]] void fail(Result code, const char* call) const {
    const char* text = get_error_string != nullptr ? get_error_string(code) : nullptr;
    std::string words = text != nullptr ? text : "", recent = recent_acl_error();
    if (!recent.empty()) words += (words.empty() ? "" : ": ") + recent;
    words = Error::describe(description.prefix + call, code, words);
    // Unsupported by a product or a release: all ranks get the same error.
    if (code == kNotSupported) throw UnsupportedError(words);
    throw Error(words);
  }

  std::optional<Library> management_;
};

/// The composition of an exchange between ranks if the library has no function for it: there are no
/// groups for sends and receives, and one after the other they would deadlock. Empty if there is no
/// composition.
const char* exchange_of(const Api& api) {
  if (api.batch_send_recv != nullptr) return "batch send/recv";
  return api.alltoallv != nullptr ? "alltoallv" : "";
}

/// Whether the library has a function for the operation.
bool has_function(const Api& api, Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return api.all_reduce != nullptr;
    case Collective::all_gather:
      return api.all_gather != nullptr;
    case Collective::reduce_scatter:
      return api.reduce_scatter != nullptr;
    case Collective::broadcast:
      return api.broadcast != nullptr;
    case Collective::reduce:
      return api.reduce != nullptr;
    case Collective::alltoall:
      return api.alltoall != nullptr;
    case Collective::alltoallv:
      return api.alltoallv != nullptr;
    case Collective::scatter:
      return api.scatter != nullptr;
    case Collective::barrier:
      return api.barrier != nullptr;
    default:
      return false;
  }
}

const char* route_of(const Api& api, Collective collective) {
  if (has_function(api, collective)) return "native";
  switch (info(collective).composition) {
    case Composition::nothing:
      return "";
    case Composition::exchange:
    case Composition::ring:
      return exchange_of(api);
    case Composition::turns:
      return api.send != nullptr && api.recv != nullptr ? "send and recv in turn" : "";
    case Composition::all_reduce:
      return api.all_reduce != nullptr ? "all_reduce of 4 bytes" : "";
  }
  return "";
}

class HcclCommunicator final : public Communicator {
 public:
  HcclCommunicator(const Api& api, Device& device, std::span<const uint8_t> id,
                   RankGroup& rank_group)
      : api_(api), device_(device), rank_(rank_group.rank()), size_(rank_group.size()) {
    RootInfo root;
    if (id.size() != sizeof(root)) throw Error("the root info has the wrong size");
    std::memcpy(&root, id.data(), sizeof(root));
    api_.check(
        api_.comm_init(static_cast<uint32_t>(size_), &root, static_cast<uint32_t>(rank_), &comm_),
        "CommInitRootInfo");
  }

  ~HcclCommunicator() override {
    if (comm_ != nullptr) api_.comm_destroy(comm_);
  }

  std::unique_ptr<Call> bind(const Operation& op, void* stream) override {
    int dtype = type(op);
    auto root = static_cast<uint32_t>(op.root);
    if (*route_of(api_, op.collective) == '\0') {
      throw UnsupportedError("this HCCL has no function for " + std::string(name(op.collective)));
    }
    if (!has_function(api_, op.collective)) return bind_from_other_functions(op, dtype, stream);
    switch (op.collective) {
      case Collective::all_reduce:
        return make_call([=, this, r = reduction(op)](const void* s, void* d) {
          api_.check(api_.all_reduce(s, d, op.count, dtype, r, comm_, stream), "AllReduce");
        });
      case Collective::all_gather:
        return make_call([=, this](const void* s, void* d) {
          api_.check(api_.all_gather(s, d, op.count, dtype, comm_, stream), "AllGather");
        });
      case Collective::reduce_scatter:
        return make_call([=, this, r = reduction(op)](const void* s, void* d) {
          api_.check(api_.reduce_scatter(s, d, op.count, dtype, r, comm_, stream), "ReduceScatter");
        });
      case Collective::broadcast:
        return make_call([=, this](const void* s, void* d) {
          if (s != d) {
            throw UnsupportedError(
                "HCCL supports broadcast in place only: use --placement in-place");
          }
          api_.check(api_.broadcast(d, op.count, dtype, root, comm_, stream), "Broadcast");
        });
      case Collective::reduce:
        return make_call([=, this, r = reduction(op)](const void* s, void* d) {
          api_.check(api_.reduce(s, d, op.count, dtype, r, root, comm_, stream), "Reduce");
        });
      case Collective::alltoall:
        return make_call([=, this](const void* s, void* d) {
          api_.check(api_.alltoall(s, op.count, dtype, d, op.count, dtype, comm_, stream),
                     "AlltoAll");
        });
      case Collective::alltoallv:
        return bind_alltoallv(op, dtype, stream);
      case Collective::scatter:
        return make_call([=, this](const void* s, void* d) {
          api_.check(api_.scatter(s, d, op.count, dtype, root, comm_, stream), "Scatter");
        });
      default:
        return bind_from_other_functions(op, dtype, stream);
    }
  }

  std::string route(const Operation& op) const override { return route_of(api_, op.collective); }

  std::string no_registration(Registration) const override {
    return "registered buffers are not supported with HCCL: use --register none";
  }

  void check() override {
    Result state = 0;
    if (api_.get_async_error == nullptr) return;
    api_.check(api_.get_async_error(comm_, &state), "GetCommAsyncError");
    api_.check(state, "GetCommAsyncError");
  }

 private:
  std::unique_ptr<Call> bind_from_other_functions(const Operation& op, int dtype, void* stream) {
    switch (info(op.collective).composition) {
      case Composition::exchange:
      case Composition::ring:
        return bind_exchange(op, dtype, stream);
      case Composition::turns:
        return bind_ping_pong(op, dtype, stream);
      case Composition::all_reduce:
        return bind_barrier(stream);
      case Composition::nothing:
        break;
    }
    throw UnsupportedError("HCCL has no known function for " + std::string(name(op.collective)));
  }

  int type(const Operation& op) const {
    int value = api_.description.dtypes[static_cast<size_t>(op.dtype)];
    if (value == kUnavailable) {
      throw UnsupportedError(std::string(name(op.dtype)) +
                             " is not supported with HCCL: its code differs between releases");
    }
    return value;
  }

  /// Checked against the vendor's documentation: the library may not reject unsupported requests.
  int reduction(const Operation& op) const {
    int value = api_.description.reductions[static_cast<size_t>(op.reduction)];
    if (value == kUnavailable) throw UnsupportedError("HCCL has no reduction avg");
    bool wide = op.dtype == Dtype::uint64 || op.dtype == Dtype::float64;
    bool never = op.dtype == Dtype::uint8 || op.dtype == Dtype::uint16 || op.dtype == Dtype::uint32;
    if (never || (wide && !is_one_of({"Ascend950"})) ||
        (op.dtype == Dtype::int16 && !reduces_int16(op.reduction))) {
      throw UnsupportedError("HCCL does not reduce " + std::string(name(op.dtype)) + " on " +
                             device_.info().name);
    }
    bool has_no_product = op.dtype == Dtype::bfloat16 || op.dtype == Dtype::int16;
    if (op.reduction == Reduction::prod && has_no_product) {
      throw UnsupportedError("HCCL does not support prod of " + std::string(name(op.dtype)));
    }
    return value;
  }

  bool is_one_of(std::initializer_list<const char*> products) const {
    const std::string& device = device_.info().name;
    return std::ranges::any_of(products, [&](const char* it) { return device.starts_with(it); });
  }

  /// Atlas A2 and A3 and the series 950 reduce int16, an Atlas 300I Duo adds it up only, and the
  /// first Atlas training series does not.
  bool reduces_int16(Reduction reduction) const {
    return is_one_of({"Ascend910B", "Ascend910_93", "Ascend950"}) ||
           (reduction == Reduction::sum && is_one_of({"Ascend310P"}));
  }

  std::unique_ptr<Call> bind_exchange(Operation op, int dtype, void* stream) {
    op.matrix = matrix_of(op, size_);
    return api_.batch_send_recv != nullptr ? bind_batch(op, dtype, stream)
                                           : bind_alltoallv(op, dtype, stream);
  }

  std::unique_ptr<Call> bind_alltoallv(const Operation& op, int dtype, void* stream) {
    UnevenParts parts(op, rank_, size_);
    auto wide = [](const std::vector<size_t>& sizes) {
      return std::vector<uint64_t>(sizes.begin(), sizes.end());
    };
    return make_call([=, this, sent = wide(parts.send_counts), from = wide(parts.send_offsets),
                      received = wide(parts.receive_counts),
                      to = wide(parts.receive_offsets)](const void* s, void* d) {
      api_.check(api_.alltoallv(s, sent.data(), from.data(), dtype, d, received.data(), to.data(),
                                dtype, comm_, stream),
                 "AlltoAllV");
    });
  }

  /// A rank's sends and receives in one call, which orders them so that none waits for another of
  /// its own. A rank's message to itself is a pair of them like any other, the last one, which is
  /// left out where the data lies in its place already.
  std::unique_ptr<Call> bind_batch(const Operation& op, int dtype, void* stream) {
    UnevenParts parts(op, rank_, size_);
    size_t width = size_bytes(op.dtype);
    std::vector<Item> items;
    std::vector<size_t> offsets_bytes;
    for (int distance = 1; distance <= size_; ++distance) {
      auto i = static_cast<size_t>((rank_ + distance) % size_);
      auto number = static_cast<uint32_t>(i);
      if (parts.send_counts[i] > 0) {
        items.push_back({kSend, nullptr, parts.send_counts[i], dtype, number});
        offsets_bytes.push_back(parts.send_offsets[i] * width);
      }
      if (parts.receive_counts[i] > 0) {
        items.push_back({kReceive, nullptr, parts.receive_counts[i], dtype, number});
        offsets_bytes.push_back(parts.receive_offsets[i] * width);
      }
    }
    bool to_itself = parts.send_counts[static_cast<size_t>(rank_)] > 0;
    return make_call([=, this](const void* s, void* d) mutable {
      for (size_t i = 0; i < items.size(); ++i) {
        auto base = static_cast<std::byte*>(items[i].direction == kSend ? const_cast<void*>(s) : d);
        items[i].memory = base + offsets_bytes[i];
      }
      size_t count = items.size();
      if (to_itself && items[count - 2].memory == items[count - 1].memory) count -= 2;
      if (count == 0) return;
      api_.check(api_.batch_send_recv(items.data(), static_cast<uint32_t>(count), comm_, stream),
                 "BatchSendRecv");
    });
  }

  /// There and back: each rank's second call waits on its stream for the first.
  std::unique_ptr<Call> bind_ping_pong(const Operation& op, int dtype, void* stream) {
    require_two_ranks(size_);
    auto peer = static_cast<uint32_t>(1 - rank_);
    auto give = [=, this, count = op.count](const void* s) {
      api_.check(api_.send(s, count, dtype, peer, comm_, stream), "Send");
    };
    auto take = [=, this, count = op.count](void* d) {
      api_.check(api_.recv(d, count, dtype, peer, comm_, stream), "Recv");
    };
    return make_call([give, take, first = rank_ == 0](const void* s, void* d) {
      if (first) give(s);
      take(d);
      if (!first) give(s);
    });
  }

  std::unique_ptr<Call> bind_barrier(void* stream) {
    if (api_.barrier != nullptr) {
      return make_call(
          [=, this](const void*, void*) { api_.check(api_.barrier(comm_, stream), "Barrier"); });
    }
    if (barrier_memory_.data() == nullptr) barrier_memory_ = Buffer(device_, sizeof(float));
    int dtype = api_.description.dtypes[static_cast<size_t>(Dtype::float32)];
    int sum = api_.description.reductions[static_cast<size_t>(Reduction::sum)];
    void* word = barrier_memory_.data();
    return make_call([=, this](const void*, void*) {
      api_.check(api_.all_reduce(word, word, 1, dtype, sum, comm_, stream), "AllReduce");
    });
  }

  const Api& api_;
  Device& device_;
  int rank_;
  int size_;
  Comm comm_ = nullptr;
  Buffer barrier_memory_;
};

class HcclLibrary final : public Ccl {
 public:
  HcclLibrary(const CclDescription& description, const CclPlaces& places)
      : api_(description, places) {
    info_.name = description.name;
    info_.version = hccl_package_version();
    info_.path = api_.library.path();
    info_.capabilities = api_.present;
    info_.missing = api_.absent;
    info_.id_bytes = sizeof(RootInfo);
    for (size_t i = 0; i < kDtypes.size(); ++i) {
      if (description.dtypes[i] != kUnavailable) info_.dtypes.emplace_back(kDtypes[i].name);
    }
    info_.reduced_dtypes = {"int8", "int16", "int32", "int64", "float16", "float32", "bfloat16"};
    info_.reductions = {"sum", "prod", "max", "min"};
    for (size_t i = 0; i < kCollectives.size(); ++i) {
      const char* route = route_of(api_, static_cast<Collective>(i));
      if (*route != '\0') info_.routes.emplace_back(kCollectives[i], route);
    }
  }

  const CclInfo& info() const override { return info_; }

  std::vector<uint8_t> make_id(int) override {
    RootInfo root;
    api_.check(api_.get_root_info(&root), "GetRootInfo");
    auto bytes = reinterpret_cast<const uint8_t*>(&root);
    return {bytes, bytes + sizeof(root)};
  }

  std::unique_ptr<Communicator> join(Device& device, std::span<const uint8_t> id,
                                     RankGroup& rank_group) override {
    return std::make_unique<HcclCommunicator>(api_, device, id, rank_group);
  }

 private:
  Api api_;
  CclInfo info_;
};

}  // namespace

std::unique_ptr<Ccl> open_hccl(const CclDescription& description, const CclPlaces& places) {
  return std::make_unique<HcclLibrary>(description, places);
}

}  // namespace cclmark
