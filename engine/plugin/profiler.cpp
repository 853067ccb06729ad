// The profiler that NCCL loads by NCCL_PROFILER_PLUGIN. It only writes records: an error of ours is
// never returned to NCCL, which would end its caller's operation.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "plugin/event_log.hpp"
#include "plugin/layouts.hpp"

#define CCLMARK_EXPORT extern "C" __attribute__((visibility("default")))

namespace cclmark::plugin {

namespace {

constexpr char kName[] = "cclmark";
constexpr unsigned long kEveryFlag = ~0UL;
constexpr int kWarning = 2;
constexpr int kNvidia231 = 23100;

constexpr std::uint64_t kCalls = kCollective | kPointToPoint | kCollectiveCall | kPointToPointCall |
                                 kKernelLaunch | kCopyEngineCollective;
constexpr std::uint64_t kSteps = kProxyOperation | kProxyStep | kKernelChannel;
constexpr std::uint64_t kKnownSince[] = {0, 0x3F, 0x3F, 0xFF, 0xFF, 0xFFF, 0x7FFF, 0xFFFF};

/// A handle for events that have no record: NCCL must get one, since it leaves out the events
/// within an event without a handle.
char unrecorded;

/// What a communicator's events have in common.
struct Context {
  std::uint64_t communicator;
  int rank;
  bool reads_v7;  // the fields that only NVIDIA's v7 has
};

constexpr char kEventsVariable[] = "CCLMARK_PLUGIN_EVENTS";

/// CCLMARK_PLUGIN_EVENTS: `calls` (usual) or `steps`, which includes channels and network steps. 0
/// if it is neither.
std::uint64_t wanted_events() {
  const char* text = std::getenv(kEventsVariable);
  if (text == nullptr || *text == '\0' || std::strcmp(text, "calls") == 0) {
    return kCalls;
  }
  return std::strcmp(text, "steps") == 0 ? kCalls | kSteps : 0;
}

std::uint64_t recorded_events() {
  static const std::uint64_t events = wanted_events() != 0 ? wanted_events() : kCalls;
  return events;
}

/// Keeps this library loaded: NCCL closes it with its last communicator, and the log goes on with
/// the next one.
void stay_loaded() {
  static const bool done = [] {
    Dl_info own{};
    if (dladdr(&unrecorded, &own) != 0 && own.dli_fname != nullptr) {
      dlopen(own.dli_fname, RTLD_LAZY | RTLD_NODELETE | RTLD_NOLOAD);
    }
    return true;
  }();
  static_cast<void>(done);
}

/// The version of the library that contains `address`; 0 if unknown or not NVIDIA's.
int nvidia_version_at(const void* address) {
  Dl_info caller{};
  if (dladdr(address, &caller) == 0 || caller.dli_fname == nullptr) {
    return 0;
  }
  void* library = dlopen(caller.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) {
    return 0;  // linked into the program
  }
  int version = 0;
  const auto get_version = reinterpret_cast<int (*)(int*)>(dlsym(library, "ncclGetVersion"));
  const bool is_rccl = std::strstr(caller.dli_fname, "rccl") != nullptr ||
                       dlsym(library, "mscclLoadAlgo") != nullptr;
  if (is_rccl || get_version == nullptr || get_version(&version) != 0) {
    version = 0;
  }
  dlclose(library);
  return version;
}

void warn(Logger log, const char* problem, const char* text) {
  if (log != nullptr) {
    log(kWarning, kEveryFlag, __FILE__, __LINE__, "cclmark's plug-in %s: %s", problem, text);
  } else {
    std::fprintf(stderr, "cclmark's plug-in %s: %s\n", problem, text);
  }
}

/// Reports settings that are not valid. They never stop the program.
void warn_of_settings(Logger log) {
  constexpr char kIgnores[] = "ignores an invalid setting";
  if (EventLog::has_invalid_capacity()) {
    warn(log, kIgnores, "CCLMARK_PLUGIN_RECORDS must be a positive integer");
  }
  if (wanted_events() == 0) {
    warn(log, kIgnores, "CCLMARK_PLUGIN_EVENTS must be calls or steps");
  }
}

int begin(void** context, int* mask, int interface_version, const void* caller, Logger log,
          const char* name, std::uint64_t communicator, int nodes, int ranks, int rank) {
  stay_loaded();
  *mask = 0;
  auto* made = new (std::nothrow) Context{communicator, rank, false};
  *context = made;
  EventLog* events = EventLog::instance();
  if (made == nullptr || events == nullptr) {
    warn(log, "records nothing", events == nullptr ? EventLog::failure() : "no memory is left");
    return 0;
  }
  warn_of_settings(log);
  const int version = nvidia_version_at(caller);
  made->reads_v7 = interface_version >= 7 && version >= kNvidia231;
  events->header().interface_version = static_cast<std::uint32_t>(interface_version);
  events->header().library_version = static_cast<std::uint32_t>(version);
  if (ranks > 0) {
    Record record{};
    record.kind = static_cast<std::uint32_t>(RecordKind::communicator);
    record.rank = rank;
    record.communicator = communicator;
    record.time_ns = now_ns();
    record.count = static_cast<std::uint64_t>(ranks);
    record.root = nodes;
    copy_text(record.function, sizeof record.function, name);
    events->append(record);
  }
  *mask = static_cast<int>(recorded_events() & kKnownSince[interface_version]);
  return 0;
}

std::uint64_t number_of(const void* handle) {
  return handle == &unrecorded ? 0 : reinterpret_cast<std::uint64_t>(handle);
}

constexpr const char* kFunctions[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                      "AllReduce", "SendRecv", "Send",      "Recv"};
constexpr const char* kAlgorithmNames[] = {
    "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
constexpr const char* kProtocolNames[] = {"LL", "LL128", "SIMPLE"};
constexpr const char* kDatatypes[] = {"ncclInt8",    "ncclUint8",   "ncclInt32",   "ncclUint32",
                                      "ncclInt64",   "ncclUint64",  "ncclFloat16", "ncclFloat32",
                                      "ncclFloat64", "ncclBfloat16"};

template <std::size_t size>
const char* name_of(std::uint8_t code, const char* const (&names)[size]) {
  return code < size ? names[code] : "unknown";
}

void set_texts(Record& record, const char* function, const char* datatype,
               const char* algorithm = nullptr, const char* protocol = nullptr) {
  copy_text(record.function, sizeof record.function, function);
  copy_text(record.datatype, sizeof record.datatype, datatype);
  copy_text(record.algorithm, sizeof record.algorithm, algorithm);
  copy_text(record.protocol, sizeof record.protocol, protocol);
}

template <typename Collective>
void add_collective_texts(Record& record, const Collective& source) {
  set_texts(record, source.function, source.datatype, source.algorithm, source.protocol);
}

/// The first version has numbers instead of names.
void add_collective_texts(Record& record, const v1::Collective& source) {
  set_texts(record, name_of(source.function, kFunctions), name_of(source.datatype, kDatatypes),
            name_of(source.algorithm, kAlgorithmNames), name_of(source.protocol, kProtocolNames));
}

/// All versions have these fields, in places of their own.
template <typename Collective>
void add_collective(Record& record, const Collective& source) {
  record.kind = static_cast<std::uint32_t>(RecordKind::collective);
  record.sequence = source.sequence;
  record.count = source.count;
  record.root = source.root;
  record.channels = source.channels;
  record.warps = source.warps;
  add_collective_texts(record, source);
}

/// The kernel's name takes the place of algorithm and protocol, which it does not have.
void add_symmetric_kernel(Record& record, const char* kernel) {
  record.kind = static_cast<std::uint32_t>(RecordKind::symmetric_collective);
  copy_text(record.algorithm, sizeof record.algorithm, kernel);
  const std::size_t copied = strnlen(kernel, sizeof record.algorithm);
  copy_text(record.protocol, sizeof record.protocol, kernel + copied);
}

void add_point_to_point(Record& record, const v1::PointToPoint& source) {
  record.count = source.count;
  record.root = source.peer;
  set_texts(record, name_of(source.function, kFunctions), name_of(source.datatype, kDatatypes));
}

void add_point_to_point(Record& record, const v2::PointToPoint& source) {
  record.count = source.count;
  record.root = source.peer;
  set_texts(record, source.function, source.datatype);
}

void add_point_to_point(Record& record, const v4::PointToPoint& source) {
  record.count = source.count;
  record.root = source.peer;
  record.channels = source.channels;
  set_texts(record, source.function, source.datatype);
}

/// How the descriptors of an interface version are read.
template <int version>
struct Layout;
template <>
struct Layout<1> {
  using Type = std::uint8_t;
  using Collective = v1::Collective;
  using PointToPoint = v1::PointToPoint;
};
template <>
struct Layout<2> {
  using Type = std::uint8_t;
  using Collective = v2::Collective;
  using PointToPoint = v2::PointToPoint;
};
template <>
struct Layout<3> {
  using Type = std::uint8_t;
  using Collective = v3::Collective;
  using PointToPoint = v3::PointToPoint;
};
template <>
struct Layout<4> {
  using Type = std::uint8_t;
  using Collective = v4::Collective;
  using PointToPoint = v4::PointToPoint;
};
template <>
struct Layout<5> : Layout<4> {
  using Type = std::uint64_t;
};
template <>
struct Layout<6> : Layout<5> {};
template <>
struct Layout<7> : Layout<6> {};

/// Adds what the descriptor says. Returns false for events that are not recorded.
template <int version>
bool describe(Record& record, const Descriptor<typename Layout<version>::Type>& event,
              bool reads_v7) {
  const auto type = static_cast<std::uint64_t>(event.type);
  if ((type & recorded_events()) == 0) {
    return false;
  }
  if (type == kCollective) {
    const auto& source = event.template as<typename Layout<version>::Collective>();
    add_collective(record, source);
    if constexpr (version < 4) {
      record.communicator = source.communicator;
    }
    if constexpr (version == 7) {
      const auto& nvidia = event.template as<v7::Collective>();
      if (reads_v7 && nvidia.kernel != nullptr && nvidia.is_symmetric) {
        add_symmetric_kernel(record, nvidia.kernel);
      }
    }
    return true;
  }
  if (type == kPointToPoint) {
    const auto& source = event.template as<typename Layout<version>::PointToPoint>();
    record.kind = static_cast<std::uint32_t>(RecordKind::point_to_point);
    add_point_to_point(record, source);
    if constexpr (version < 4) {
      record.communicator = source.communicator;
    }
    return true;
  }
  if (type == kProxyOperation) {
    const auto& source = event.template as<ProxyOperation>();
    record.kind = static_cast<std::uint32_t>(RecordKind::proxy_operation);
    record.channels = source.channel;
    record.root = source.peer;
    record.sequence = static_cast<std::uint64_t>(source.steps);
    record.count = static_cast<std::uint64_t>(source.chunk_bytes);
    copy_text(record.function, sizeof record.function, source.is_send != 0 ? "Send" : "Recv");
    if (source.pid != getpid()) {
      record.parent = 0;  // a number in the log of another process
    }
    return true;
  }
  if (type == kProxyStep) {
    record.kind = static_cast<std::uint32_t>(RecordKind::proxy_step);
    record.sequence = static_cast<std::uint64_t>(event.template as<ProxyStep>().step);
    return true;
  }
  if constexpr (version >= 3) {
    if (type == kKernelChannel) {
      const auto& source = event.template as<KernelChannel>();
      record.kind = static_cast<std::uint32_t>(RecordKind::kernel_channel);
      record.channels = source.channel;
      if constexpr (version >= 4) {
        record.device_ns = source.device_ns;
      }
      return true;
    }
  }
  if constexpr (version >= 5) {
    if (type == kCollectiveCall) {
      const auto& source = event.template as<v5::CollectiveCall>();
      record.kind = static_cast<std::uint32_t>(RecordKind::collective_call);
      record.count = source.count;
      record.root = source.root;
      set_texts(record, source.function, source.datatype);
      return true;
    }
    if (type == kPointToPointCall) {
      const auto& source = event.template as<v5::PointToPointCall>();
      record.kind = static_cast<std::uint32_t>(RecordKind::point_to_point_call);
      record.count = source.count;
      set_texts(record, source.function, source.datatype);
      return true;
    }
    if (type == kKernelLaunch) {
      record.kind = static_cast<std::uint32_t>(RecordKind::kernel_launch);
      return true;
    }
  }
  if constexpr (version >= 6) {
    if (type == kCopyEngineCollective) {
      const auto& source = event.template as<v6::CopyEngineCollective>();
      record.kind = static_cast<std::uint32_t>(RecordKind::copy_engine_collective);
      record.sequence = source.sequence;
      record.count = source.count;
      record.root = source.root;
      set_texts(record, source.function, source.datatype, source.synchronization);
      return true;
    }
  }
  return false;
}

template <int version>
int start_event(void* context, void** handle,
                const Descriptor<typename Layout<version>::Type>* event) {
  *handle = &unrecorded;
  EventLog* events = EventLog::instance();
  const auto* known = static_cast<const Context*>(context);
  if (events == nullptr || known == nullptr) {
    return 0;
  }
  Record record{};
  // Some events leave the rank of their descriptor 0; before v4 it is the only one.
  record.rank = version < 4 ? event->rank : known->rank;
  record.communicator = known->communicator;
  record.time_ns = now_ns();
  record.parent = number_of(event->parent);
  if (describe<version>(record, *event, known->reads_v7)) {
    if (const std::uint64_t number = events->append(record); number != 0) {
      *handle = reinterpret_cast<void*>(number);
    }
  }
  return 0;
}

int stop_event(void* handle) {
  EventLog* events = EventLog::instance();
  if (events != nullptr && number_of(handle) != 0) {
    Record record{};
    record.kind = static_cast<std::uint32_t>(RecordKind::stop);
    record.rank = -1;
    record.time_ns = now_ns();
    record.parent = number_of(handle);
    events->append(record);
  }
  return 0;
}

template <int version>
int record_state(void* handle, int state, const StateArguments* arguments) {
  EventLog* events = EventLog::instance();
  if (events == nullptr || number_of(handle) == 0) {
    return 0;
  }
  Record record{};
  record.kind = static_cast<std::uint32_t>(RecordKind::state);
  record.rank = -1;
  record.time_ns = now_ns();
  record.parent = number_of(handle);
  record.sequence = static_cast<std::uint64_t>(state);
  if (version >= 4 && arguments != nullptr) {
    if (state == kKernelChannelStop) {
      record.device_ns = arguments->device_ns;
    } else {
      record.count = arguments->bytes;
    }
  }
  events->append(record);
  return 0;
}

int finalize(void* context) {
  delete static_cast<Context*>(context);
  return 0;
}

/// The oldest interfaces do not introduce their communicators.
template <int version>
int init_unnamed(void** context, int* mask) {
  return begin(context, mask, version, __builtin_return_address(0), nullptr, nullptr, 0, 0, 0, -1);
}

int init_v4(void** context, int* mask, const char* name, std::uint64_t communicator, int nodes,
            int ranks, int rank, Logger log) {
  return begin(context, mask, 4, __builtin_return_address(0), log, name, communicator, nodes, ranks,
               rank);
}

template <int version>
int init_by_id(void** context, std::uint64_t communicator, int* mask, const char* name, int nodes,
               int ranks, int rank, Logger log) {
  return begin(context, mask, version, __builtin_return_address(0), log, name, communicator, nodes,
               ranks, rank);
}

using Unnamed = Profiler<std::uint8_t, void**, int*>;
using Named =
    Profiler<std::uint8_t, void**, int*, const char*, std::uint64_t, int, int, int, Logger>;
using ById =
    Profiler<std::uint64_t, void**, std::uint64_t, int*, const char*, int, int, int, Logger>;

template <int version, typename Interface, typename Init>
constexpr Interface profiler_of(Init init) {
  return {kName, init, start_event<version>, stop_event, record_state<version>, finalize, {}};
}

}  // namespace

CCLMARK_EXPORT const Unnamed ncclProfiler_v1 = profiler_of<1, Unnamed>(init_unnamed<1>);
CCLMARK_EXPORT const Unnamed ncclProfiler_v2 = profiler_of<2, Unnamed>(init_unnamed<2>);
CCLMARK_EXPORT const Unnamed ncclProfiler_v3 = profiler_of<3, Unnamed>(init_unnamed<3>);
CCLMARK_EXPORT const Named ncclProfiler_v4 = profiler_of<4, Named>(init_v4);
CCLMARK_EXPORT const ById ncclProfiler_v5 = profiler_of<5, ById>(init_by_id<5>);
CCLMARK_EXPORT const ById ncclProfiler_v6 = profiler_of<6, ById>(init_by_id<6>);
CCLMARK_EXPORT const ById ncclProfiler_v7 = profiler_of<7, ById>(init_by_id<7>);

}  // namespace cclmark::plugin
