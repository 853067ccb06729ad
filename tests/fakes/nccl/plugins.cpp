#include "nccl/plugins.hpp"

#include <dlfcn.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "common/environment.hpp"
#include "nccl/debug_file.hpp"
#include "nccl/last_error.hpp"

namespace fake_nccl {
namespace {

// The interfaces as the public headers of NCCL 2.23 to 2.31 have them.

using Log = void (*)(int, unsigned long, const char*, int, const char*, ...);

struct CollV1 {
  const char* name;
  uint64_t commHash, seqNumber;
  uint8_t func;
  const void* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  uint8_t datatype;
  uint32_t op;
  size_t trafficBytes;
  uint8_t nMaxChannels, nWarps, algo, proto;
  int isCollnet, isNvls;
};
struct CollV2 {
  const char* name;
  uint64_t commHash, seqNumber;
  const char* func;
  const void* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  const char* datatype;
  size_t trafficBytes;
  uint8_t nMaxChannels, nWarps;
  const char *algo, *proto;
};
struct CollV3 {
  const char* name;
  uint64_t commHash, seqNumber;
  const char* func;
  const void* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  const char* datatype;
  uint8_t nMaxChannels, nWarps;
  const char *algo, *proto;
};
struct CollV7 {  // v4 to v6 end earlier
  uint64_t seqNumber;
  const char* func;
  const void* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  const char* datatype;
  uint8_t nChannels, nWarps;
  const char *algo, *proto;
  void* parentGroup;
  const char* kernelVariant;
  bool isSymColl;
  uint64_t userTag;
};
struct P2pV1 {
  const char* name;
  uint64_t commHash;
  uint8_t func;
  void* buff;
  uint8_t datatype;
  size_t count;
  int peer;
};
struct P2pV2 {
  const char* name;
  uint64_t commHash;
  const char* func;
  void* buff;
  const char* datatype;
  size_t count;
  int peer;
};
struct P2pV4 {
  const char* func;
  void* buff;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t nChannels;
  void* parentGroup;
};
struct CollApi {
  const char* func;
  size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool graphCaptured;
  uint64_t userTag;
};
struct P2pApi {
  const char* func;
  size_t count;
  const char* datatype;
  void* stream;
  bool graphCaptured;
  uint64_t userTag;  // v5 and v6 end earlier
};
struct GroupApi {
  bool graphCaptured;
  int groupDepth;
};
struct KernelLaunch {
  void* stream;
};
struct CeColl {
  uint64_t seqNumber;
  const char* func;
  const void* sendBuff;
  void* recvBuff;
  size_t count;
  int root;
  const char* datatype;
  const char* syncStrategy;
  bool intraBatchSync;
  uint32_t batchSize, numBatches, ceSeqNum;
  void* stream;
  uint64_t userTag;  // v6 ends earlier
};
struct CeCollSync {
  bool isComplete;
  int nRanks;
};
struct CeCollBatch {
  int numOps;
  size_t totalBytes;
  bool useIntraSync;
};
struct ProxyOp {
  pid_t pid;
  uint8_t channelId;
  int peer, nSteps, chunkSize, isSend;
};
struct ProxyStep {
  int step;
};
struct KernelCh {
  uint8_t channelId;
  uint64_t pTimer;
};

template <typename Type>
struct Descr {
  Type type;
  void* parentObj;
  int rank;
  union {
    CollV1 v1;
    CollV2 v2;
    CollV3 v3;
    CollV7 v4;
    P2pV1 p2p1;
    P2pV2 p2p2;
    P2pV4 p2p4;
    CollApi api;
    P2pApi p2pApi;
    GroupApi groupApi;
    KernelLaunch launch;
    CeColl copies;
    CeCollSync copySync;
    CeCollBatch copyBatch;
    KernelCh kernel;
    ProxyOp proxyOp;
    ProxyStep proxyStep;
  };
};

union StateArgs {
  size_t transSize;
  uint64_t pTimer;
};

struct Interface {
  const char* name;
  void* init;
  int (*startEvent)(void*, void**, void*);
  int (*stopEvent)(void*);
  int (*recordEventState)(void*, int, StateArgs*);
  int (*finalize)(void*);
};

struct TunerV2 {
  const char* name;
  int (*init)(size_t, size_t, Log, void**);
  int (*getCollInfo)(void*, int, size_t, int, int, int, int*, int*, int*);
  int (*destroy)(void*);
};
struct TunerV3 {
  const char* name;
  int (*init)(size_t, size_t, Log, void**);
  int (*getCollInfo)(void*, int, size_t, int, float**, int, int, int*);
  int (*destroy)(void*);
};
struct TunerV4 {
  const char* name;
  int (*init)(size_t, size_t, Log, void**);
  int (*getCollInfo)(void*, int, size_t, int, float**, int, int, int, int*);
  int (*destroy)(void*);
};
struct TunerV5 {
  const char* name;
  int (*init)(void**, uint64_t, size_t, size_t, Log, void*, void*);
  int (*getCollInfo)(void*, int, size_t, int, float**, int, int, int, int*);
  int (*finalize)(void*);
};
struct TunerV6 : TunerV5 {
  int (*getChunkSize)(void*, int, size_t, int, int, int, size_t*);
};

constexpr int kGroup = 1, kColl = 2, kP2p = 4, kProxyOp = 8, kProxyStep = 16, kKernelCh = 64;
constexpr int kGroupApi = 256, kCollApi = 512, kP2pApi = 1024, kKernelLaunch = 2048;
constexpr int kCeColl = 4096, kCeSync = 8192, kCeBatch = 16384;
constexpr int kWithinTask = kProxyOp | kProxyStep | kKernelCh;
constexpr int kCopies = kCeColl | kCeSync | kCeBatch;
constexpr int kWithinGroupApi =
    kGroupApi | kCollApi | kP2pApi | kKernelLaunch | kCopies | kGroup | kColl | kP2p | kWithinTask;
constexpr int kProxyStepSendWait = 9, kKernelChStop = 22;
constexpr std::array<const char*, 7> kAlgorithms = {
    "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
constexpr std::array<const char*, 3> kProtocols = {"LL", "LL128", "SIMPLE"};
// Types that NCCL lacks have no name.
constexpr std::array<const char*, kDtypeBytes.size()> kTypes = {"ncclInt8",
                                                                "ncclUint8",
                                                                "ncclInt32",
                                                                "ncclUint32",
                                                                "ncclInt64",
                                                                "ncclUint64",
                                                                "ncclFloat16",
                                                                "ncclFloat32",
                                                                "ncclFloat64",
                                                                "ncclBfloat16",
                                                                "ncclFloat8e4m3",
                                                                "ncclFloat8e5m2",
                                                                "",
                                                                ""};
using Table = std::array<std::array<float, 3>, 7>;

struct Loaded {
  Interface* profiler = nullptr;
  int profiler_version = 0;
  void* tuner = nullptr;
  int tuner_version = 0;
  int mask = 0;  // process-wide, as in NCCL
};

/// The newest interface version that the claimed version of the library has.
int newest(std::initializer_list<std::pair<int, int>> since) {
  int found = 0;
  for (auto [library, interface] : since) {
    if (version() >= library) found = interface;
  }
  return found;
}

void* open_named(const char* variable) {
  const char* path = std::getenv(variable);
  if (path == nullptr || strcasecmp(path, "none") == 0) return nullptr;
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

void* newest_symbol(void* library, const char* stem, int from, int oldest, int& found) {
  for (int number = from; library != nullptr && number >= oldest; --number) {
    if (void* symbol = dlsym(library, (stem + std::to_string(number)).c_str())) {
      found = number;
      return symbol;
    }
  }
  return nullptr;
}

Loaded& loaded() {
  static Loaded* const all = [] {
    auto* made = new Loaded;
    int profilers = newest(
        {{22300, 1}, {22400, 2}, {22600, 3}, {22700, 4}, {22803, 5}, {22902, 6}, {23102, 7}});
    int tuners = newest({{22100, 2}, {22200, 3}, {22400, 4}, {22803, 5}, {23003, 6}});
    if (profilers > 0) {
      made->profiler = static_cast<Interface*>(newest_symbol(open_named("NCCL_PROFILER_PLUGIN"),
                                                             "ncclProfiler_v", profilers, 1,
                                                             made->profiler_version));
    }
    if (tuners > 0) {
      made->tuner = newest_symbol(open_named("NCCL_TUNER_PLUGIN"), "ncclTunerPlugin_v", tuners, 2,
                                  made->tuner_version);
    }
    return made;
  }();
  return *all;
}

constexpr int kLevelWarn = 2;
constexpr unsigned long kSubsystems = 1 | 64;  // INIT and TUNING

/// As in NCCL, a warning becomes the last error and is printed from NCCL_DEBUG=WARN on. Everything
/// else is printed with NCCL_DEBUG=INFO, into NCCL's file if NCCL_DEBUG_SUBSYS asks for it.
void log(int level, unsigned long flags, const char*, int, const char* format, ...) {
  std::array<char, 2048> text{};
  va_list values;
  va_start(values, format);
  std::vsnprintf(text.data(), text.size(), format, values);
  va_end(values);
  const char* debug = std::getenv("NCCL_DEBUG");
  const bool is_informing = debug != nullptr && strcasecmp(debug, "INFO") == 0;
  if (level == kLevelWarn) {
    set_last_error(text.data());
    if (is_informing || (debug != nullptr && strcasecmp(debug, "WARN") == 0)) {
      std::fprintf(stderr, "NCCL WARN %s\n", text.data());
    }
    return;
  }
  if (!is_informing || (flags & kSubsystems) == 0) return;
  FILE* file = std::getenv("NCCL_DEBUG_SUBSYS") == nullptr ? stderr : debug_file("TUNING");
  if (file != nullptr) {
    std::fprintf(file, "fake:1:1 [0] NCCL INFO %s\n", text.data());
    std::fflush(file);
  }
}

/// As NCCL's check of a result, which ends the operation there.
void check(int result, const char* call) {
  if (result != 0) std::fprintf(stderr, "NCCL WARN %s returned %d\n", call, result);
}

/// NCCL's number of the function.
int function_of(Kind kind) {
  switch (kind) {
    case Kind::broadcast:
      return 0;
    case Kind::reduce:
      return 1;
    case Kind::all_gather:
      return 2;
    case Kind::reduce_scatter:
      return 3;
    case Kind::all_reduce:
      return 4;
    default:
      return 5;
  }
}

bool is_forced_out(const char* variable, const char* name) {
  const char* text = std::getenv(variable);
  return text != nullptr && strcasecmp(text, name) != 0;
}

Table predicted(const Operation& operation, size_t bytes) {
  constexpr float kLatency[2][3] = {{5.0F, 13.0F, 20.0F}, {6.6F, 14.0F, 18.0F}};
  constexpr float kBytesPerUs[2][3] = {{15e3F, 60e3F, 90e3F}, {20e3F, 90e3F, 150e3F}};
  Table table;
  for (auto& row : table) row.fill(-1.0F);
  for (size_t algorithm = 0; algorithm < 2; ++algorithm) {
    if (algorithm == 0 && operation.kind != Kind::all_reduce) continue;
    if (is_forced_out("NCCL_ALGO", kAlgorithms[algorithm])) continue;
    for (size_t protocol = 0; protocol < 3; ++protocol) {
      if (is_forced_out("NCCL_PROTO", kProtocols[protocol])) continue;
      table[algorithm][protocol] = kLatency[algorithm][protocol] +
                                   static_cast<float>(bytes) / kBytesPerUs[algorithm][protocol];
    }
  }
  return table;
}

/// CCLMARK_FAKE_SLOW_PROTOCOL=PROTOCOL:US: enqueueing such a collective takes so much longer.
void take_time_of(const char* protocol) {
  const char* text = std::getenv("CCLMARK_FAKE_SLOW_PROTOCOL");
  const char* time_us = text != nullptr ? std::strchr(text, ':') : nullptr;
  if (time_us == nullptr) return;
  const auto length = static_cast<size_t>(time_us - text);
  if (std::strlen(protocol) == length && std::strncmp(text, protocol, length) == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(std::strtol(time_us + 1, nullptr, 10)));
  }
}

/// The fake device's clock with CCLMARK_FAKE_DEVICE_CLOCK_AHEAD_NS, otherwise `fixed`.
uint64_t device_now_ns(uint64_t fixed) {
  const char* ahead = std::getenv("CCLMARK_FAKE_DEVICE_CLOCK_AHEAD_NS");
  if (ahead == nullptr) return fixed;
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(now).count()) +
         std::strtoull(ahead, nullptr, 10);
}

/// An event between its start and its stop, reported if the mask has one of the types.
class Event {
 public:
  template <typename Type>
  Event(void* context, Descr<Type>& described, void* parent = nullptr, int types = ~0) {
    if ((loaded().mask & types) == 0) return;
    described.parentObj = parent;
    const Descr<Type> before = described;
    loaded().profiler->startEvent(context, &handle_, &described);
    if (std::memcmp(&before, &described, sizeof before) != 0) {
      std::fprintf(stderr, "a plug-in has changed NCCL's descriptor\n");
      std::abort();
    }
  }
  ~Event() {
    if (handle_ != nullptr) loaded().profiler->stopEvent(handle_);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void* handle() const { return handle_; }

 private:
  void* handle_ = nullptr;
};

/// What the thread that drives the network reports of a task: one operation of this process, and
/// one that it does for another process, with a handle of that one.
template <typename Type>
void report_proxy(void* context, void* task) {
  const Loaded& all = loaded();
  if ((all.mask & (kProxyOp | kProxyStep)) == 0) return;
  for (const pid_t process : {getpid(), getpid() + 1}) {
    Descr<Type> event{};
    event.type = kProxyOp;
    event.proxyOp = {process, 1, 1, 1, 4096, 1};
    Event operation(context, event, task);
    if ((all.mask & kProxyStep) == 0) continue;
    if (version() < 22800 && operation.handle() == nullptr) continue;
    event = {};
    event.type = kProxyStep;
    event.proxyStep = {7};
    Event step(context, event, operation.handle());
    if (step.handle() == nullptr) continue;
    StateArgs sent{};
    sent.transSize = 512;
    all.profiler->recordEventState(step.handle(), kProxyStepSendWait, &sent);
  }
}

/// A thread that reports kernels later than the host's calls return, in their order, as NCCL's
/// proxy thread does: CCLMARK_FAKE_LATE_KERNELS_MS later, or when the communicator ends.
class LateReports {
 public:
  void add(std::chrono::milliseconds late, std::function<void()> report) {
    const std::lock_guard lock(mutex_);
    pending_.emplace_back(std::chrono::steady_clock::now() + late, std::move(report));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    changed_.notify_one();
  }

  /// Reports what is left without further delay, and waits until all is reported.
  void finish() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      changed_.notify_one();
    }
    thread_.join();
    is_over_ = false;
  }

 private:
  using Pending = std::pair<std::chrono::steady_clock::time_point, std::function<void()>>;

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return is_over_ || !pending_.empty(); });
      if (pending_.empty()) return;
      const Pending next = std::move(pending_.front());
      pending_.pop_front();
      changed_.wait_until(lock, next.first, [this] { return is_over_; });
      lock.unlock();
      next.second();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Pending> pending_;
  std::thread thread_;
  bool is_over_ = false;
};

LateReports& late_reports() {
  static auto* reports = new LateReports;
  return *reports;
}

uint64_t kernel_begin_ns() {
  return device_now_ns(1000);
}

/// The kernel of a task, on so many channels: since version 3, with times since version 4.
template <typename Type>
void report_kernel(void* context, void* task, uint8_t channels,
                   uint64_t begins_ns = kernel_begin_ns()) {
  const Loaded& all = loaded();
  if ((all.mask & kKernelCh) == 0 || all.profiler_version < 3) return;
  const bool timed = all.profiler_version >= 4;
  const uint64_t begin_ns = timed ? begins_ns : 0;
  const uint64_t end_ns = device_now_ns(5000);
  auto report = [=, &all] {
    for (uint8_t channel = 0; channel < channels; ++channel) {
      Descr<Type> event{};
      event.type = kKernelCh;
      event.kernel = {channel, begin_ns};
      Event kernel(context, event, task);
      if (kernel.handle() == nullptr || !timed) continue;
      StateArgs stop{};
      stop.pTimer = end_ns;
      all.profiler->recordEventState(kernel.handle(), kKernelChStop, &stop);
    }
  };
  const auto late_ms = fake_common::environment_number("CCLMARK_FAKE_LATE_KERNELS_MS", 0, 0);
  if (late_ms > 0) {
    late_reports().add(std::chrono::milliseconds(late_ms), report);
  } else {
    report();
  }
}

}  // namespace

struct Plugins::Choice {
  int algorithm;
  int protocol;
  int channels;
};

Plugins::Plugins(uint64_t communicator, int ranks, int rank)
    : communicator_(communicator), ranks_(ranks), rank_(rank) {
  Loaded& all = loaded();
  if (all.profiler != nullptr) {
    void* init = all.profiler->init;
    if (all.profiler_version <= 3) {
      reinterpret_cast<int (*)(void**, int*)>(init)(&profiler_context_, &all.mask);
    } else if (all.profiler_version == 4) {
      reinterpret_cast<int (*)(void**, int*, const char*, uint64_t, int, int, int, Log)>(init)(
          &profiler_context_, &all.mask, "fake", communicator_, 1, ranks_, rank_, log);
    } else {
      reinterpret_cast<int (*)(void**, uint64_t, int*, const char*, int, int, int, Log)>(init)(
          &profiler_context_, communicator_, &all.mask, "fake", 1, ranks_, rank_, log);
    }
  }
  int result = all.tuner != nullptr ? begin_tuner() : 0;
  if (result != 0) {
    // The communicator is not created. Its clean-up finalizes the plug-ins nevertheless.
    const std::string reason = last_error();
    end();
    throw Failure{static_cast<Result>(result), reason};
  }
}

int Plugins::begin_tuner() {
  const Loaded& all = loaded();
  auto count = static_cast<size_t>(ranks_);
  if (all.tuner_version <= 4) {
    return static_cast<TunerV2*>(all.tuner)->init(count, 1, log, &tuner_context_);
  }
  std::array<int, 3> domains = {1, ranks_, ranks_};
  std::array<double, 21 + 63 + 60> constants{};
  return static_cast<TunerV5*>(all.tuner)->init(&tuner_context_, communicator_, count, 1, log,
                                                domains.data(), constants.data());
}

Plugins::~Plugins() {
  end();
}

/// With CCLMARK_FAKE_SHARED_PROXY the thread that reports kernels is that of several communicators,
/// as in NCCL after splits that share resources: it goes on when the communicator is finalized.
void Plugins::end() {
  const bool is_shared = fake_common::environment_number("CCLMARK_FAKE_SHARED_PROXY", 0, 0) != 0;
  if (!is_shared) late_reports().finish();
  Loaded& all = loaded();
  if (all.profiler != nullptr) all.profiler->finalize(profiler_context_);
  late_reports().finish();
  if (all.tuner != nullptr && all.tuner_version <= 4) {
    static_cast<TunerV4*>(all.tuner)->destroy(tuner_context_);
  } else if (all.tuner != nullptr) {
    static_cast<TunerV5*>(all.tuner)->finalize(tuner_context_);
  }
}

Plugins::Choice Plugins::choose(const Operation& operation) const {
  size_t bytes = operation.count * size_bytes(operation.dtype);
  if (operation.kind == Kind::all_gather || operation.kind == Kind::reduce_scatter) {
    bytes *= static_cast<size_t>(ranks_);
  }
  Table table = predicted(operation, bytes);
  auto* rows = reinterpret_cast<float**>(table.data());
  int channels = 0;
  int function = function_of(operation.kind);
  const Loaded& all = loaded();
  int result = 0;
  if (all.tuner_version == 2) {
    int algorithm = -1, protocol = -1;
    result = static_cast<TunerV2*>(all.tuner)->getCollInfo(tuner_context_, function, bytes, 0, 0, 1,
                                                           &algorithm, &protocol, &channels);
    if (algorithm >= 0 && protocol >= 0) {
      table[static_cast<size_t>(algorithm)][static_cast<size_t>(protocol)] = 0.0F;
    }
  } else if (all.tuner_version == 3) {
    result = static_cast<TunerV3*>(all.tuner)->getCollInfo(tuner_context_, function, bytes, 1, rows,
                                                           7, 3, &channels);
  } else if (all.tuner_version >= 4) {
    result = static_cast<TunerV5*>(all.tuner)->getCollInfo(tuner_context_, function, bytes, 1, rows,
                                                           7, 3, 0, &channels);
  }
  check(result, "getCollInfo");
  Choice best{1, 2, 0};
  float least = -1.0F;
  for (int algorithm = 0; algorithm < 7; ++algorithm) {
    for (int protocol = 0; protocol < 3; ++protocol) {
      float us = table[static_cast<size_t>(algorithm)][static_cast<size_t>(protocol)];
      if (us >= 0 && (least < 0 || us < least)) {
        least = us;
        best = {algorithm, protocol, 0};
      }
    }
  }
  // The tuner's number is limited by the channels of the communicator.
  best.channels =
      channels > 0
          ? std::min(channels, most_channels_)
          : static_cast<int>(std::clamp(1 + bytes / 65536, static_cast<size_t>(least_channels_),
                                        static_cast<size_t>(most_channels_)));
  if (fake_common::environment_is_rank("CCLMARK_FAKE_ODD_ALGORITHM", rank_))
    best.algorithm = 1 - best.algorithm;
  if (all.tuner_version >= 6) {
    auto* chunks = static_cast<TunerV6*>(all.tuner)->getChunkSize;
    size_t chunk = 0;
    if (chunks != nullptr) {
      check(chunks(tuner_context_, function, bytes, best.algorithm, best.protocol, best.channels,
                   &chunk),
            "getChunkSize");
    }
  }
  return best;
}

/// Whether copy engines do the operation, which is so from 2.29.2 on with CCLMARK_FAKE_COPY_ENGINE.
bool Plugins::is_copied(const Operation& operation) const {
  const bool is_possible = operation.kind == Kind::all_gather || function_of(operation.kind) == 5;
  return is_possible && !is_point_to_point(operation.kind) && version() >= 22902 &&
         fake_common::environment_number("CCLMARK_FAKE_COPY_ENGINE", 0, 0) != 0;
}

void Plugins::report_copies(const Operation& operation, void* group_call) {
  const Loaded& all = loaded();
  const char* function = name(operation.kind);
  const size_t bytes = operation.count * size_bytes(operation.dtype);
  if (FILE* file = rank_ == 0 ? debug_file("TUNING") : nullptr) {
    std::fprintf(file,
                 "fake:1:1 [0] NCCL INFO %s [Copy Engine]: %zu Bytes -> cudaMemcpyBatchAsync\n",
                 function, bytes);
    std::fflush(file);
  }
  if (!is_reporting() || all.profiler_version < 6) return;
  const char* type = kTypes[static_cast<size_t>(operation.dtype)];
  Descr<uint64_t> event{};
  event.type = kCollApi;
  event.api = {function, operation.count, type, operation.root, nullptr, false, 0};
  Event call(profiler_context_, event, group_call, kCollApi | kCopies);
  if ((all.mask & kCopies) == 0) return;
  event = {};
  event.type = kCeColl;
  event.copies = {++sequence_,
                  function,
                  operation.send,
                  operation.receive,
                  operation.count,
                  operation.root,
                  type,
                  "MultiMem",
                  true,
                  static_cast<uint32_t>(ranks_),
                  1,
                  7,
                  nullptr,
                  0};
  Event copies(profiler_context_, event, call.handle());
  if (copies.handle() == nullptr) return;
  event = {};
  event.type = kCeSync;
  event.copySync = {true, ranks_};
  Event synchronized(profiler_context_, event, copies.handle(), kCeSync);
  event = {};
  event.type = kCeBatch;
  event.copyBatch = {ranks_, bytes * static_cast<size_t>(ranks_), true};
  Event batch(profiler_context_, event, copies.handle(), kCeBatch);
}

bool Plugins::is_reporting() const {
  return loaded().profiler != nullptr &&
         !fake_common::environment_is_rank("CCLMARK_FAKE_SILENT_PROFILER", rank_);
}

void Plugins::report_collective(const Operation& operation, void* group_call, bool is_first) {
  Loaded& all = loaded();
  Choice choice = choose(operation);
  const char* function = name(operation.kind);
  const char* algorithm = kAlgorithms[static_cast<size_t>(choice.algorithm)];
  const char* protocol = kProtocols[static_cast<size_t>(choice.protocol)];
  const char* type = kTypes[static_cast<size_t>(operation.dtype)];
  take_time_of(protocol);
  bool symmetric = fake_common::environment_number("CCLMARK_FAKE_SYMMETRIC", 0, 0) != 0;
  // As in NCCL, the kernel of all symmetric collectives of a group is the first one's.
  if (symmetric && !is_first) choice.channels = 0;
  auto channels = static_cast<uint8_t>(choice.channels);
  if (FILE* file = rank_ == 0 ? debug_file("TUNING") : nullptr) {
    size_t bytes = operation.count * size_bytes(operation.dtype);
    if (symmetric) {
      std::fprintf(file,
                   "fake:1:1 [0] NCCL INFO %s [Symmetric]: %zu Bytes -> Kernel AllReduce_AGxLL_R "
                   "nchannels %d nthreads 512 nWorks 1\n",
                   function, bytes, choice.channels);
    } else {
      std::fprintf(
          file,
          "fake:1:1 [0] NCCL INFO %s: %zu Bytes -> Algo %s proto %s channel{Lo..Hi}={0..%d}\n",
          function, bytes, algorithm, protocol, choice.channels - 1);
    }
    std::fflush(file);
  }
  if (!is_reporting()) return;
  ++sequence_;
  if (sequence_ == 3 && fake_common::environment_is_rank("CCLMARK_FAKE_DIES_PROFILED", rank_)) {
    std::raise(SIGKILL);
  }
  const CollV7 newest = {sequence_,
                         function,
                         operation.send,
                         operation.receive,
                         operation.count,
                         operation.root,
                         type,
                         channels,
                         16,
                         algorithm,
                         protocol,
                         nullptr,
                         symmetric ? "AllReduce_AGxLL_R" : nullptr,
                         symmetric,
                         0};
  if (all.profiler_version <= 4) {
    Descr<uint8_t> event{};
    event.rank = rank_;
    event.type = kGroup;
    if ((all.mask & (kGroup | kColl | kWithinTask)) == 0) return;
    Event group(profiler_context_, event);
    if ((all.mask & (kColl | kWithinTask)) == 0) return;
    if (symmetric) return;
    if (group.handle() == nullptr) {
      report_proxy<uint8_t>(profiler_context_, nullptr);
      report_kernel<uint8_t>(profiler_context_, nullptr, channels);
      return;
    }
    event.type = kColl;
    if (all.profiler_version == 1) {
      event.v1 = {"fake",
                  communicator_,
                  sequence_,
                  static_cast<uint8_t>(function_of(operation.kind)),
                  operation.send,
                  operation.receive,
                  operation.count,
                  operation.root,
                  static_cast<uint8_t>(operation.dtype),
                  0,
                  0,
                  channels,
                  16,
                  static_cast<uint8_t>(choice.algorithm),
                  static_cast<uint8_t>(choice.protocol),
                  0,
                  0};
    } else if (all.profiler_version == 2) {
      event.v2 = {
          "fake",          communicator_,  sequence_, function, operation.send, operation.receive,
          operation.count, operation.root, type,      0,        channels,       16,
          algorithm,       protocol};
    } else if (all.profiler_version == 3) {
      event.v3 = {"fake",
                  communicator_,
                  sequence_,
                  function,
                  operation.send,
                  operation.receive,
                  operation.count,
                  operation.root,
                  type,
                  channels,
                  16,
                  algorithm,
                  protocol};
    } else {
      event.v4 = newest;
    }
    Event collective(profiler_context_, event, group.handle());
    report_proxy<uint8_t>(profiler_context_, collective.handle());
    report_kernel<uint8_t>(profiler_context_, collective.handle(), channels);
    return;
  }
  Descr<uint64_t> event{};
  event.type = kCollApi;
  event.api = {function, operation.count, type, operation.root, nullptr, false, 0};
  Event call(profiler_context_, event, group_call, kCollApi | kColl | kWithinTask);
  if (symmetric && all.profiler_version < 7) return;
  event = {};
  event.type = kGroup;
  Event group(profiler_context_, event, nullptr, kGroup | kColl | kWithinTask);
  if ((all.mask & (kColl | kWithinTask)) == 0) return;
  event = {};
  event.type = kColl;
  event.rank = rank_;
  event.v4 = newest;
  event.v4.parentGroup = group.handle();
  Event collective(profiler_context_, event, call.handle());
  report_proxy<uint64_t>(profiler_context_, collective.handle());
  report_kernel<uint64_t>(profiler_context_, collective.handle(), channels);
}

void Plugins::report_messages(const Operation& operation, void* group_call) {
  Loaded& all = loaded();
  if (!is_reporting()) return;
  if ((all.mask & (kP2p | kP2pApi)) == 0) return;
  const char* function = operation.kind == Kind::receive ? "Recv" : "Send";
  const char* type = kTypes[static_cast<size_t>(operation.dtype)];
  const P2pV4 newest = {function, nullptr, type, operation.count, operation.root, 2, nullptr};
  if (all.profiler_version <= 4) {
    Descr<uint8_t> event{};
    event.rank = rank_;
    event.type = kP2p;
    if (all.profiler_version == 1) {
      event.p2p1 = {"fake",
                    communicator_,
                    static_cast<uint8_t>(*function == 'S' ? 6 : 7),
                    nullptr,
                    static_cast<uint8_t>(operation.dtype),
                    operation.count,
                    operation.root};
    } else if (all.profiler_version <= 3) {
      event.p2p2 = {"fake", communicator_,   function,      nullptr,
                    type,   operation.count, operation.root};
    } else {
      event.p2p4 = newest;
    }
    Event message(profiler_context_, event);
    return;
  }
  Descr<uint64_t> event{};
  event.type = kP2pApi;
  event.p2pApi = {function, operation.count, type, nullptr, false, 0};
  Event call(profiler_context_, event, group_call, kP2pApi | kP2p | kWithinTask);
  event = {};
  event.type = kGroup;
  Event group(profiler_context_, event, nullptr, kGroup | kP2p | kWithinTask);
  if ((all.mask & (kP2p | kWithinTask)) == 0) return;
  event = {};
  event.type = kP2p;
  event.rank = rank_;
  event.p2p4 = newest;
  event.p2p4.parentGroup = group.handle();
  Event message(profiler_context_, event, call.handle());
  if (message.handle() != nullptr) {
    report_kernel<uint64_t>(profiler_context_, message.handle(), 2, messages_begin_ns_);
  }
}

void Plugins::report(const std::vector<Operation>& batch) {
  const bool has_calls = is_reporting() && loaded().profiler_version >= 5;
  Descr<uint64_t> event{};
  event.type = kGroupApi;
  event.groupApi = {false, 1};
  Event group(profiler_context_, event, nullptr, has_calls ? kWithinGroupApi : 0);
  bool has_kernel = false;
  messages_begin_ns_ = kernel_begin_ns();  // all of a group are in one kernel
  for (const Operation& operation : batch) {
    if (is_copied(operation)) {
      report_copies(operation, group.handle());
      continue;
    }
    report_one(operation, group.handle(), !has_kernel);
    has_kernel = true;
  }
  event = {};
  event.type = kKernelLaunch;
  Event launch(profiler_context_, event, group.handle(),
               has_calls && has_kernel ? kKernelLaunch : 0);
}

void Plugins::report_one(const Operation& operation, void* group_call, bool is_first) {
  if (is_point_to_point(operation.kind)) {
    report_messages(operation, group_call);
  } else if (function_of(operation.kind) < 5) {
    report_collective(operation, group_call, is_first);
  } else {
    // As in NCCL, these are made of messages to and from every rank.
    for (int peer = 0; peer < ranks_; ++peer) {
      Operation part = operation;
      part.root = peer;
      if (operation.kind != Kind::gather || operation.root == peer) {
        part.kind = Kind::send;
        report_messages(part, group_call);
      }
      if (operation.kind != Kind::scatter || operation.root == peer) {
        part.kind = Kind::receive;
        report_messages(part, group_call);
      }
    }
  }
}

}  // namespace fake_nccl
