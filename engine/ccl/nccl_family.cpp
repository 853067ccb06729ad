// Every library that has NCCL's interface: a description each, one implementation for all.

#include <algorithm>
#include <array>
#include <utility>

#include "ccl/grouped.hpp"
#include "ccl/nccl_configuration.hpp"

namespace cclmark {
namespace {

struct UniqueId {
  char bytes[128];
};
using Window = void*;

constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 4;
constexpr int kInvalidUsage = 5;
constexpr int kInProgress = 7;
constexpr int kSymmetricWindow = 1;
/// The members of ncclCommMemStat_t, in the order of their numbers.
constexpr std::array<const char*, 4> kMemoryStats = {"GpuMemSuspend", "GpuMemSuspended",
                                                     "GpuMemPersist", "GpuMemTotal"};

/// A library of the family. Optional functions are those that `find` looks for.
class Nccl : public FunctionsInNcclsOrder<Nccl> {
 public:
  Nccl(const CclDescription& description, const CclPlaces& places)
      : FunctionsInNcclsOrder(description, places, description.name, description.name) {
    refuse_other_vendors();
    symbols_.require(get_version_, "GetVersion");
    symbols_.require(get_unique_id_, "GetUniqueId");
    symbols_.require(comm_init_rank_, "CommInitRank");
    symbols_.require(comm_destroy_, "CommDestroy");
    symbols_.require(comm_get_async_error_, "CommGetAsyncError");
    symbols_.require(get_error_string_, "GetErrorString");
    require_groups();
    find_operations();
    find_exchanges();
    find_own(gather_, "Gather", Collective::gather);
    find_own(scatter_, "Scatter", Collective::scatter);
    symbols_.find(comm_init_rank_config_, "CommInitRankConfig");
    symbols_.find(get_last_error_, "GetLastError");
    symbols_.find(mem_alloc_, "MemAlloc");
    symbols_.find(mem_free_, "MemFree");
    symbols_.find(comm_register_, "CommRegister");
    symbols_.find(comm_deregister_, "CommDeregister");
    symbols_.find(window_register_, "CommWindowRegister");
    symbols_.find(window_deregister_, "CommWindowDeregister");
    symbols_.find(parameter_keys_, "ParamGetAllParameterKeys");
    symbols_.find(parameter_, "ParamGetParameter");
    symbols_.find(mem_stats_, "CommMemStats");
    require(get_version_(&version_), "GetVersion", nullptr);
    // As 2.8 and older write it: 2708 is 2.7.8.
    if (version_ < 10000) version_ = version_ / 1000 * 10000 + version_ % 1000;
    called_ += " ";
    called_ += version_text(version_);
    int oldest = description_.oldest_version;
    if (version_ < oldest) {
      throw MissingError(symbols_.path() + " is version " + version_text(version_) + "; " +
                         std::to_string(oldest / 10000) + "." + std::to_string(oldest / 100 % 100) +
                         " or newer is required: choose another with --ccl-path");
    }
  }

  void describe(CclInfo& info) const {
    FunctionsInNcclsOrder::describe(info, version_text(version_), sizeof(UniqueId));
    if (version_ >= description_.fp8_version) return;
    std::erase(info.dtypes, cclmark::name(Dtype::fp8e4m3));
    std::erase(info.dtypes, cclmark::name(Dtype::fp8e5m2));
    info.reduced_dtypes = info.dtypes;
  }

  std::vector<uint8_t> make_id() const {
    UniqueId id;
    require(get_unique_id_(&id), "GetUniqueId", nullptr);
    return bytes_of(id);
  }

  Comm join(Device& device, std::span<const uint8_t> bytes, int rank, int ranks) const {
    symbols_.require_runtime_of(device);
    auto id = id_of<UniqueId>(bytes);
    Comm comm = nullptr;
    require(comm_init_rank_(&comm, ranks, id, rank), "CommInitRank", nullptr);
    return comm;
  }
  Comm join_with(Device& device, std::span<const uint8_t> bytes, int rank, int ranks,
                 const CommunicatorOptions& options) const {
    symbols_.require_runtime_of(device);
    if (comm_init_rank_config_ == nullptr) {
      throw MissingError(called_ + " has no CommInitRankConfig, which options of a communicator " +
                         "require (NCCL has it since 2.14)");
    }
    NcclConfiguration configuration(options, version_, called_);
    auto id = id_of<UniqueId>(bytes);
    Comm comm = nullptr;
    require(comm_init_rank_config_(&comm, ranks, id, rank, configuration.fields()),
            "CommInitRankConfig", nullptr);
    return comm;
  }
  void leave(Comm comm) const noexcept { comm_destroy_(comm); }
  void check(Comm comm) const {
    Result state = kSuccess;
    require(comm_get_async_error_(comm, &state), "CommGetAsyncError", comm);
    if (state != kInProgress) require(state, "CommGetAsyncError", comm);
  }

  int dtype(const Operation& op, const Device& device) const {
    int value = FunctionsInNcclsOrder::dtype(op, device);
    if (op.dtype == Dtype::fp8e4m3 || op.dtype == Dtype::fp8e5m2) require_fp8(op, device.info());
    return value;
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
          require(alltoall(s, d, op.count, dtype, comm, stream), alltoall_name_.c_str(), comm);
        });
      default:
        return make_call(
            [=, this, parts = UnevenParts(op, seat.rank, seat.ranks)](const void* s, void* d) {
              require(alltoallv(s, d, parts, dtype, comm, stream), alltoallv_name_.c_str(), comm);
            });
    }
  }

  void require(Result code, const char* call, Comm comm) const {
    if (code == kSuccess) [[likely]]
      return;
    std::string text = get_error_string_(code);
    const char* last = get_last_error_ != nullptr ? get_last_error_(comm) : nullptr;
    if (last != nullptr && *last != '\0') text += ": " + std::string(last);
    std::string message = Error::describe(symbols_.prefix() + call, code, text);
    if (code == kInvalidArgument || code == kInvalidUsage) throw RefusedError(message);
    throw Error(message);
  }

  /// Allocates memory that the library can register. Raises OutOfMemoryError, UnsupportedError.
  void* allocate(size_t bytes, Comm comm) const {
    if (mem_alloc_ == nullptr || mem_free_ == nullptr) {
      throw UnsupportedError(called_ + " has no MemAlloc (NCCL has it since 2.19): use --memory " +
                             "plain");
    }
    void* memory = nullptr;
    try {
      require(mem_alloc_(&memory, bytes), "MemAlloc", comm);
    } catch (const Error& error) {
      throw OutOfMemoryError(error.what());
    }
    return memory;
  }

  /// Registers memory and returns its handle. Raises UnsupportedError if the library refuses it.
  void* register_memory(void* memory, size_t bytes, Registration registration, Comm comm) const {
    void* handle = nullptr;
    try {
      if (registration == Registration::local) {
        require(comm_register_(comm, memory, bytes, &handle), "CommRegister", comm);
      } else {
        require(window_register_(comm, memory, bytes, &handle, kSymmetricWindow),
                "CommWindowRegister", comm);
      }
    } catch (const RefusedError& error) {
      throw UnsupportedError(error.what());
    }
    if (handle == nullptr) {
      throw UnsupportedError(
          "the library did not register the buffers: the call returned no handle and no error (see "
          "the library's log)");
    }
    return handle;
  }

  void deregister_memory(void* handle, Registration registration, Comm comm) const noexcept {
    if (registration == Registration::local) {
      comm_deregister_(comm, handle);
    } else {
      window_deregister_(comm, handle);
    }
  }
  void release(void* memory) const noexcept { mem_free_(memory); }

  std::string no_registration(Registration registration) const {
    bool local = registration == Registration::local;
    bool possible = local ? comm_register_ != nullptr && comm_deregister_ != nullptr
                          : window_register_ != nullptr && window_deregister_ != nullptr;
    if (possible) return "";
    return called_ + (local ? " has no CommRegister (NCCL has it since 2.19)"
                            : " has no symmetric windows (NCCL has them since 2.27)");
  }

  /// The library's own statement of its settings; empty before NCCL 2.30.
  std::vector<std::pair<std::string, std::string>> parameters() const {
    std::vector<std::pair<std::string, std::string>> found;
    if (parameter_keys_ == nullptr || parameter_ == nullptr) return found;
    const char** keys = nullptr;
    int number = 0;
    if (parameter_keys_(&keys, &number) != kSuccess || keys == nullptr) return found;
    for (int i = 0; i < number; ++i) {
      const char* value = nullptr;
      int bytes = 0;
      if (keys[i] == nullptr || parameter_(keys[i], &value, &bytes) != kSuccess) continue;
      if (value != nullptr && bytes >= 0) {
        found.emplace_back(keys[i], std::string(value, static_cast<size_t>(bytes)));
      }
    }
    return found;
  }

  /// Reads every statistic of ncclCommMemStat_t. Raises UnsupportedError if the library lacks the
  /// function or refuses the call, as NCCL does with its memory manager switched off.
  MemoryStatement memory_statement(Comm comm) const {
    if (mem_stats_ == nullptr) {
      throw UnsupportedError(called_ + " has no CommMemStats (NCCL has it since 2.29.7)");
    }
    MemoryStatement statement;
    for (size_t stat = 0; stat < kMemoryStats.size(); ++stat) {
      uint64_t value = 0;
      try {
        require(mem_stats_(comm, static_cast<int>(stat), &value), "CommMemStats", comm);
      } catch (const Error& error) {
        throw UnsupportedError(error.what());
      }
      statement.emplace_back(kMemoryStats[stat], value);
    }
    return statement;
  }

 private:
  void find_exchanges() {
    const ExchangeNames& names = description_.exchanges;
    alltoall_name_ = spelled(names.alltoall, names.older_alltoall);
    alltoallv_name_ = spelled(names.alltoallv, names.older_alltoallv);
    if (names.typed_twice) {
      find_own(alltoall_twice_, alltoall_name_.c_str(), Collective::alltoall);
    } else {
      find_own(alltoall_, alltoall_name_.c_str(), Collective::alltoall);
    }
    if (alltoallv_name_.empty()) return;
    if (names.typed_twice) {
      find_own(alltoallv_twice_, alltoallv_name_.c_str(), Collective::alltoallv);
    } else {
      find_own(alltoallv_, alltoallv_name_.c_str(), Collective::alltoallv);
    }
  }

  const std::string& spelled(const std::string& name, const std::string& older) const {
    bool as_before = !older.empty() && !symbols_.have(symbols_.prefix() + name) &&
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
    if (version_ < description_.fp8_version) {
      throw UnsupportedError(called_ + " does not support 8-bit floats: " +
                             version_text(description_.fp8_version) + " or newer is required");
    }
    if (!info(op.collective).reduces) return;
    if (description_.fp8_halved && op.reduction == Reduction::prod) {
      throw UnsupportedError(called_ +
                             " multiplies 8-bit floats as OCP or FNUZ, depending on the device: "
                             "the expected product is unknown");
    }
    if (device.architecture >= description_.fp8_architecture) return;
    throw UnsupportedError(
        called_ + " requires compute capability 9.0 to reduce 8-bit floats; this device has " +
        std::to_string(device.architecture / 10) + "." + std::to_string(device.architecture % 10));
  }

  /// Several vendors ship libraries of one name whose functions have the same names and take
  /// handles of different runtimes.
  void refuse_other_vendors() const {
    const std::string& own = description_.identified_by;
    if (own.empty()) return refuse_identified_ones();
    if (symbols_.have(own)) return;
    std::string what = " is not " + description_.full_name + ": it has no " + own;
    std::string known_as;
    for (const SimilarCcl& other : description_.similar) {
      if (other.identified_by.empty() && known_as.empty()) {
        what += "; it may be " + other.full_name;
        known_as = other.name;
      } else if (!other.identified_by.empty() && symbols_.have(other.identified_by)) {
        what = " is " + other.full_name + ", not " + description_.full_name + ": it has " +
               other.identified_by + " and no " + own;
        known_as = other.name;
        break;
      }
    }
    refuse(what, known_as);
  }

  /// For a vendor whose library has no identifying function.
  void refuse_identified_ones() const {
    if (description_.derived) return;
    for (const SimilarCcl& other : description_.similar) {
      if (other.identified_by.empty() || !symbols_.have(other.identified_by)) continue;
      refuse(" is " + other.full_name + ", not " + description_.full_name + ": it has " +
                 other.identified_by,
             other.name);
    }
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& known_as) const {
    throw MissingError(symbols_.path() + what + ". Choose another with --ccl-path or " +
                       description_.variable + (known_as.empty() ? "" : ", or --ccl " + known_as));
  }

  int version_ = 0;
  Result (*get_version_)(int*);
  Result (*get_unique_id_)(UniqueId*);
  Result (*comm_init_rank_)(Comm*, int, UniqueId, int);
  Result (*comm_init_rank_config_)(Comm*, int, UniqueId, int, NcclConfigurationFields*);
  Result (*comm_destroy_)(Comm);
  Result (*comm_get_async_error_)(Comm, Result*);
  const char* (*get_error_string_)(Result);
  Result (*gather_)(const void*, void*, size_t, int, int, Comm, void*);
  Result (*scatter_)(const void*, void*, size_t, int, int, Comm, void*);
  const char* (*get_last_error_)(Comm) = nullptr;
  Result (*mem_alloc_)(void**, size_t);
  Result (*mem_free_)(void*);
  Result (*comm_register_)(Comm, void*, size_t, void**);
  Result (*comm_deregister_)(Comm, void*);
  Result (*window_register_)(Comm, void*, size_t, Window*, int);
  Result (*window_deregister_)(Comm, Window);
  Result (*parameter_keys_)(const char***, int*);
  Result (*parameter_)(const char*, const char**, int*);
  Result (*mem_stats_)(Comm, int, uint64_t*);
  std::string alltoall_name_, alltoallv_name_;
  // One of each two, see ExchangeNames.
  Result (*alltoall_)(const void*, void*, size_t, int, Comm, void*) = nullptr;
  Result (*alltoall_twice_)(const void*, size_t, int, void*, size_t, int, Comm, void*) = nullptr;
  Result (*alltoallv_)(const void*, const size_t*, const size_t*, void*, const size_t*,
                       const size_t*, int, Comm, void*) = nullptr;
  Result (*alltoallv_twice_)(const void*, const size_t*, const size_t*, int, void*, const size_t*,
                             const size_t*, int, Comm, void*) = nullptr;
};

/// Adds registered buffers and the library's report on its memory.
class NcclCommunicator final : public GroupedCommunicator<Nccl> {
 public:
  using GroupedCommunicator::GroupedCommunicator;

  void* allocate(Device& device, size_t bytes, MemoryKind memory) override {
    if (memory == MemoryKind::library) return api_.allocate(bytes, comm_);
    return Communicator::allocate(device, bytes, memory);
  }
  void release(Device& device, void* memory, MemoryKind kind) noexcept override {
    if (kind == MemoryKind::library) return api_.release(memory);
    device.release(memory);
  }

  std::string no_registration(Registration registration) const override {
    return api_.no_registration(registration);
  }
  void register_memory(void* memory, size_t bytes, Registration registration) override {
    registered_.emplace_back(memory, api_.register_memory(memory, bytes, registration, comm_));
  }
  void deregister_memory(void* memory, Registration registration) noexcept override {
    auto of_it = [memory](const auto& pair) { return pair.first == memory; };
    if (auto found = std::ranges::find_if(registered_, of_it); found != registered_.end()) {
      api_.deregister_memory(found->second, registration, comm_);
      registered_.erase(found);
    }
  }

  std::vector<std::pair<std::string, std::string>> parameters() const override {
    return api_.parameters();
  }

  MemoryStatement memory_statement() const override { return api_.memory_statement(comm_); }

 private:
  std::vector<std::pair<void*, void*>> registered_;  // memory and its handle in the library
};

}  // namespace

std::unique_ptr<Ccl> open_nccl_family(const CclDescription& description, const CclPlaces& places) {
  return std::make_unique<GroupedLibrary<Nccl, NcclCommunicator>>(description, places);
}

}  // namespace cclmark
