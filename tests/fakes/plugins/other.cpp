// A profiler and tuner plug-in of someone else, for all interface versions, which writes what it
// receives to a file. It accepts only handles of its own.
//
// Built with FAKE_OLDEST_PROFILER, FAKE_NEWEST_PROFILER, FAKE_OLDEST_TUNER, FAKE_NEWEST_TUNER: the
// versions of the interfaces that it exports.

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Log = void (*)(int, unsigned long, const char*, int, const char*, ...);

enum : uint64_t { kColl = 2, kP2p = 4, kProxyOp = 8, kP2pApi = 1024, kCeColl = 4096 };

// The structures as the public headers have them, as far as they are read.
struct CollV1 {
  const char* name;
  uint64_t commHash, seqNumber;
  uint8_t func;
  const void* sendBuff;
  void* recvBuff;
  size_t count;
};
struct CollV2 {
  const char* name;
  uint64_t commHash, seqNumber;
  const char* func;
  const void* sendBuff;
  void* recvBuff;
  size_t count;
};
struct CollV4 {
  uint64_t seqNumber;
  const char* func;
  const void* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  const char* datatype;
  uint8_t nChannels, nWarps;
  const char *algo, *proto;
};
struct CollV5 : CollV4 {
  void* parentGroup;
};
struct P2pV5 {
  const char* func;
  void* buff;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t nChannels;
  void* parentGroup;
};
struct P2pApi {
  const char* func;
  size_t count;
};
struct CeColl {
  uint64_t seqNumber;
  const char* func;
  const void* sendBuff;
  void* recvBuff;
  size_t count;
};
struct ProxyOp {
  pid_t pid;
};

template <typename Type>
struct Descr {
  Type type;
  void* parentObj;
  int rank;
  union {
    CollV1 v1;
    CollV2 v2;
    CollV5 v5;
    P2pV5 p2p5;
    P2pApi p2pApi;
    CeColl copies;
    ProxyOp proxyOp;
  };
};

struct Context {
  int rank;
};

struct Handle {
  int number;
};

/// The value of a variable, or `otherwise`.
long number_in(const char* variable, long otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtol(text, nullptr, 0) : otherwise;
}

/// What this process has received. Never destroyed: threads may outlive main.
class Receiver {
 public:
  static Receiver& instance() {
    static auto* const one = new Receiver;
    return *one;
  }

  template <typename... Values>
  void write(const char* format, Values... values) {
    const std::lock_guard lock(mutex_);
    if (file_ == nullptr) return;
    std::fprintf(file_, format, values...);
    std::fputc('\n', file_);
    std::fflush(file_);
  }

  void* new_handle() {
    const std::lock_guard lock(mutex_);
    auto made = std::make_unique<Handle>(Handle{static_cast<int>(handles_.size()) + 1});
    void* key = made.get();
    handles_.emplace(key, std::move(made));
    return key;
  }

  /// The number of an event, from 1; 0 for no handle. A foreign handle is an error: -1.
  int number(const void* handle) {
    if (handle == nullptr) return 0;
    {
      const std::lock_guard lock(mutex_);
      if (auto found = handles_.find(handle); found != handles_.end()) return found->second->number;
    }
    write("ERROR: %p is not a handle of this plug-in", handle);
    return -1;
  }

  void add_context(const void* context) {
    const std::lock_guard lock(mutex_);
    contexts_.insert(context);
  }
  void remove_context(const void* context) {
    const std::lock_guard lock(mutex_);
    contexts_.erase(context);
  }

  /// What is wrong with the context of an event; empty if it is one that is not finalized.
  const char* problem(const void* context) {
    const std::lock_guard lock(mutex_);
    if (context == nullptr) return " ERROR: no context";
    return contexts_.count(context) == 0 ? " ERROR: a finalized context" : "";
  }

  /// Once as many events as CCLMARK_FAKE_OTHER_AFTER were started, the mask becomes
  /// CCLMARK_FAKE_OTHER_THEN.
  void change_mask() {
    if (++started_ == number_in("CCLMARK_FAKE_OTHER_AFTER", 0) && mask != nullptr) {
      const auto then = static_cast<int>(number_in("CCLMARK_FAKE_OTHER_THEN", 0));
      std::atomic_ref<int>(*mask).store(then);
    }
  }

  int* mask = nullptr;

 private:
  Receiver() {
    if (const char* prefix = std::getenv("CCLMARK_FAKE_OTHER_FILE")) {
      file_ = std::fopen((std::string(prefix) + "-" + std::to_string(getpid())).c_str(), "w");
    }
  }

  std::mutex mutex_;
  std::FILE* file_ = nullptr;
  std::unordered_map<const void*, std::unique_ptr<Handle>> handles_;
  std::unordered_set<const void*> contexts_;
  std::atomic<long> started_ = 0;
};

int begin(int version, void** context, int* mask, uint64_t communicator, int ranks, int rank) {
  Receiver& receiver = Receiver::instance();
  receiver.write("init v%d: %d ranks, hash %d", version, ranks, communicator != 0);
  if (number_in("CCLMARK_FAKE_OTHER_FAILS", 0) != 0) return 3;
  *context = new Context{rank};
  receiver.add_context(*context);
  *mask = static_cast<int>(number_in("CCLMARK_FAKE_OTHER_MASK", 0xFFFF));
  receiver.mask = mask;
  return 0;
}

[[maybe_unused]] int init_unnamed(void** context, int* mask) {
  return begin(1, context, mask, 0, 0, 0);
}
[[maybe_unused]] int init_v4(void** context, int* mask, const char*, uint64_t hash, int, int ranks,
                             int rank, Log) {
  return begin(4, context, mask, hash, ranks, rank);
}
[[maybe_unused]] int init_by_id(void** context, uint64_t id, int* mask, const char*, int, int ranks,
                                int rank, Log) {
  return begin(5, context, mask, id, ranks, rank);
}

template <int version, typename Type>
std::string details(const Descr<Type>& event) {
  Receiver& receiver = Receiver::instance();
  if (event.type == kProxyOp && event.proxyOp.pid != getpid()) return " of another process";
  if constexpr (version >= 5) {
    if (event.type == kP2p) {
      return " group " + std::to_string(receiver.number(event.p2p5.parentGroup));
    }
    if (event.type == kP2pApi) {
      return " " + std::string(event.p2pApi.func) + " count " + std::to_string(event.p2pApi.count);
    }
  }
  if constexpr (version >= 6) {
    if (event.type == kCeColl) {
      return " " + std::string(event.copies.func) + " count " + std::to_string(event.copies.count);
    }
  }
  if (event.type != kColl) return "";
  if constexpr (version == 1) {
    return " count " + std::to_string(event.v1.count);
  } else if constexpr (version <= 3) {
    return " " + std::string(event.v2.func) + " count " + std::to_string(event.v2.count);
  } else {
    std::string text = " " + std::string(event.v5.func) + " count " +
                       std::to_string(event.v5.count) + " " + event.v5.algo;
    if (version >= 5) text += " group " + std::to_string(receiver.number(event.v5.parentGroup));
    return text;
  }
}

template <int version, typename Type>
int start_event(void* context, void** handle, Descr<Type>* event) {
  Receiver& receiver = Receiver::instance();
  const auto type = static_cast<unsigned>(event->type);
  const bool is_remote = type == kProxyOp && event->proxyOp.pid != getpid();
  const int parent =
      is_remote ? (event->parentObj != nullptr ? -2 : 0) : receiver.number(event->parentObj);
  const bool is_ignored = (number_in("CCLMARK_FAKE_OTHER_IGNORES", 0) & type) != 0;
  *handle = is_ignored ? nullptr : receiver.new_handle();
  receiver.write("start %d: type %u in %d%s%s", receiver.number(*handle), type, parent,
                 details<version>(*event).c_str(), receiver.problem(context));
  receiver.change_mask();
  return 0;
}

int stop_event(void* handle) {
  Receiver::instance().write("stop %d", Receiver::instance().number(handle));
  return 0;
}

int record_state(void* handle, int state, const uint64_t* arguments) {
  Receiver::instance().write("state %d: %d of %d", state,
                             arguments != nullptr ? static_cast<int>(*arguments) : -1,
                             Receiver::instance().number(handle));
  return 0;
}

int finalize(void* context) {
  Receiver::instance().write("finalize");
  Receiver::instance().remove_context(context);
  delete static_cast<Context*>(context);
  return 0;
}

template <typename Type, typename... Init>
struct Profiler {
  const char* name;
  int (*init)(Init...);
  int (*startEvent)(void*, void**, Descr<Type>*);
  int (*stopEvent)(void*);
  int (*recordEventState)(void*, int, const uint64_t*);
  int (*finalize)(void*);
};
using Unnamed = Profiler<uint8_t, void**, int*>;
using Named = Profiler<uint8_t, void**, int*, const char*, uint64_t, int, int, int, Log>;
using ById = Profiler<uint64_t, void**, uint64_t, int*, const char*, int, int, int, Log>;

int begin_tuner(int version, void** context) {
  Receiver::instance().write("tuner init v%d", version);
  if (number_in("CCLMARK_FAKE_OTHER_FAILS", 0) != 0) return 3;
  *context = new Context{0};
  return 0;
}

/// CCLMARK_FAKE_OTHER_CHOICE: algorithm * 100 + protocol * 10 + channels.
std::array<int, 3> choice() {
  const auto all = static_cast<int>(number_in("CCLMARK_FAKE_OTHER_CHOICE", 0));
  return {all / 100, all / 10 % 10, all % 10};
}

int tuner_result() {
  return static_cast<int>(number_in("CCLMARK_FAKE_OTHER_RESULT", 0));
}

int decide(void* context, float** rows, int protocols, int* channels) {
  Receiver::instance().write("decide%s", context == nullptr ? " ERROR: no context" : "");
  auto* table = reinterpret_cast<float*>(rows);
  const auto [algorithm, protocol, wanted] = choice();
  if (wanted > 0) {
    table[algorithm * protocols + protocol] = 0.0F;
    *channels = wanted;
  }
  return tuner_result();
}

template <int version>
int tuner_init(size_t, size_t, Log, void** context) {
  return begin_tuner(version, context);
}
template <int version>
int tuner_init_by_id(void** context, uint64_t, size_t, size_t, Log, void* domains,
                     void* constants) {
  if (domains == nullptr || constants == nullptr) return 4;
  return begin_tuner(version, context);
}
[[maybe_unused]] int decide_v2(void* context, int, size_t, int, int, int, int* algorithm,
                               int* protocol, int* channels) {
  Receiver::instance().write("decide%s", context == nullptr ? " ERROR: no context" : "");
  if (const auto chosen = choice(); chosen[2] > 0) {
    *algorithm = chosen[0];
    *protocol = chosen[1];
    *channels = chosen[2];
  }
  return tuner_result();
}
[[maybe_unused]] int decide_v3(void* context, int, size_t, int, float** table, int, int protocols,
                               int* channels) {
  return decide(context, table, protocols, channels);
}
[[maybe_unused]] int decide_v4(void* context, int, size_t, int, float** table, int, int protocols,
                               int, int* channels) {
  return decide(context, table, protocols, channels);
}
[[maybe_unused]] int chunk_size(void*, int, size_t, int, int, int, size_t* chunk) {
  Receiver::instance().write("chunk");
  *chunk = 4096;
  return 0;
}
int end_tuner(void* context) {
  Receiver::instance().write("tuner end");
  delete static_cast<Context*>(context);
  return 0;
}

template <typename Init, typename Decide>
struct Tuner {
  const char* name;
  Init* init;
  Decide* getCollInfo;
  int (*finalize)(void*);
  int (*getChunkSize)(void*, int, size_t, int, int, int, size_t*);
};
using TunerInit = int(size_t, size_t, Log, void**);
using TunerInitById = int(void**, uint64_t, size_t, size_t, Log, void*, void*);
constexpr char kName[] = "other";

template <int version, typename Type>
constexpr Profiler<Type, void**, uint64_t, int*, const char*, int, int, int, Log> by_id() {
  return {kName, init_by_id, start_event<version, Type>, stop_event, record_state, finalize};
}

}  // namespace

#define FAKE_HAS_PROFILER(version) \
  (FAKE_OLDEST_PROFILER <= version && version <= FAKE_NEWEST_PROFILER)
#define FAKE_HAS_TUNER(version) (FAKE_OLDEST_TUNER <= version && version <= FAKE_NEWEST_TUNER)

#if FAKE_HAS_PROFILER(1)
FAKE_EXPORT const Unnamed ncclProfiler_v1 = {kName,      init_unnamed, start_event<1, uint8_t>,
                                             stop_event, record_state, finalize};
#endif
#if FAKE_HAS_PROFILER(2)
FAKE_EXPORT const Unnamed ncclProfiler_v2 = {kName,      init_unnamed, start_event<2, uint8_t>,
                                             stop_event, record_state, finalize};
#endif
#if FAKE_HAS_PROFILER(3)
FAKE_EXPORT const Unnamed ncclProfiler_v3 = {kName,      init_unnamed, start_event<3, uint8_t>,
                                             stop_event, record_state, finalize};
#endif
#if FAKE_HAS_PROFILER(4)
FAKE_EXPORT const Named ncclProfiler_v4 = {kName,      init_v4,      start_event<4, uint8_t>,
                                           stop_event, record_state, finalize};
#endif
#if FAKE_HAS_PROFILER(5)
FAKE_EXPORT const ById ncclProfiler_v5 = by_id<5, uint64_t>();
#endif
#if FAKE_HAS_PROFILER(6)
FAKE_EXPORT const ById ncclProfiler_v6 = by_id<6, uint64_t>();
#endif
#if FAKE_HAS_PROFILER(7)
FAKE_EXPORT const ById ncclProfiler_v7 = by_id<7, uint64_t>();
#endif
#if FAKE_HAS_TUNER(2)
FAKE_EXPORT const Tuner<TunerInit, decltype(decide_v2)> ncclTunerPlugin_v2 = {
    kName, tuner_init<2>, decide_v2, end_tuner, nullptr};
#endif
#if FAKE_HAS_TUNER(3)
FAKE_EXPORT const Tuner<TunerInit, decltype(decide_v3)> ncclTunerPlugin_v3 = {
    kName, tuner_init<3>, decide_v3, end_tuner, nullptr};
#endif
#if FAKE_HAS_TUNER(4)
FAKE_EXPORT const Tuner<TunerInit, decltype(decide_v4)> ncclTunerPlugin_v4 = {
    kName, tuner_init<4>, decide_v4, end_tuner, nullptr};
#endif
#if FAKE_HAS_TUNER(5)
FAKE_EXPORT const Tuner<TunerInitById, decltype(decide_v4)> ncclTunerPlugin_v5 = {
    kName, tuner_init_by_id<5>, decide_v4, end_tuner, nullptr};
#endif
#if FAKE_HAS_TUNER(6)
FAKE_EXPORT const Tuner<TunerInitById, decltype(decide_v4)> ncclTunerPlugin_v6 = {
    kName, tuner_init_by_id<6>, decide_v4, end_tuner, chunk_size};
#endif
