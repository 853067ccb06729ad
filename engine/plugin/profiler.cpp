// The profiler that NCCL loads by NCCL_PROFILER_PLUGIN. It writes records and passes all calls on
// to another plug-in, if there is one. Errors are never returned to NCCL, which would end its
// caller's operation.

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "plugin/call_profile.hpp"
#include "plugin/contexts.hpp"
#include "plugin/event_log.hpp"
#include "plugin/handles.hpp"
#include "plugin/layouts.hpp"
#include "plugin/logging.hpp"
#include "plugin/other_plugin.hpp"
#include "plugin/shared_mask.hpp"
#include "plugin/surroundings.hpp"

namespace cclmark::plugin {

namespace {

constexpr char kName[] = "cclmark";
constexpr int kNvidia228 = 22800;
constexpr int kNvidia231 = 23100;

constexpr std::uint64_t kCalls = kCollective | kPointToPoint | kCollectiveCall | kPointToPointCall |
                                 kKernelLaunch | kCopyEngineCollective;
constexpr std::uint64_t kCounts =
    kCollective | kPointToPoint | kCollectiveCall | kPointToPointCall | kCopyEngineCollective;
constexpr std::uint64_t kSteps = kProxyOperation | kProxyStep | kKernelChannel;
constexpr std::uint64_t kKnownSince[] = {0, 0x3F, 0x3F, 0xFF, 0xFF, 0xFFF, 0x7FFF, 0xFFFF};

/// CCLMARK_PLUGIN_EVENTS: `calls` (usual), `steps`, which includes channels and network steps, or
/// those of a profile: `counts`, or `profile`, which includes times of kernels. 0 if it is none.
std::uint64_t wanted_events() {
  const char* text = std::getenv(kEventsVariable);
  if (text == nullptr || *text == '\0' || is_wanted("calls")) {
    return kCalls;
  }
  if (is_wanted("counts")) {
    return kCounts;
  }
  if (is_wanted("profile")) {
    return kCounts | kKernelChannel;
  }
  return is_wanted("steps") ? kCalls | kSteps : 0;
}

std::uint64_t recorded_events() {
  static const std::uint64_t events = wanted_events() != 0 ? wanted_events() : kCalls;
  return events;
}

/// The version of the library that contains `address`; 0 if unknown or not NVIDIA's.
int nvidia_version_at(const void* address) {
  const Library library = library_of(address);
  return std::strcmp(library.name, "nccl") == 0 ? library.version : 0;
}

/// Reports settings that are not valid. They never stop the program.
void warn_of_settings(Logger log) {
  constexpr char kIgnores[] = "ignores an invalid setting";
  static std::atomic_flag has_printed_records, has_printed_events, has_printed_pairs;
  if (EventLog::has_invalid_capacity()) {
    warn_visibly(log, has_printed_records, kIgnores,
                 "CCLMARK_PLUGIN_RECORDS must be a positive integer");
  }
  if (wanted_events() == 0) {
    warn_visibly(log, has_printed_events, kIgnores,
                 "CCLMARK_PLUGIN_EVENTS must be calls, steps, counts or profile");
  }
  if (HandlePairs::has_invalid_capacity()) {
    warn_visibly(log, has_printed_pairs, kIgnores,
                 "CCLMARK_PLUGIN_PAIRS must be a positive integer");
  }
}

/// The handles of this process: none are of recorded events if there is no log.
Handles& handles() {
  static Handles* const all = [] {
    EventLog* events = EventLog::instance();
    return new Handles(events != nullptr ? events->capacity() : 0);
  }();
  return *all;
}

/// The handles of this process in a profile.
HandlePairs& handle_pairs() {
  static auto* const all = new HandlePairs;
  return *all;
}

/// The other plug-in's handle of an event, nullptr: none.
void* others_handle(void* handle) {
  return is_profile() ? handle_pairs().others(handle) : handles().others(handle);
}

/// Whether events can be recorded. Reports the reason if not.
bool can_record(Logger log) {
  if (EventLog::instance() == nullptr) {
    report_missing_log(log);
    return false;
  }
  if (is_profile() ? CallProfile::instance() == nullptr : !handles().is_valid()) {
    static std::atomic_flag is_printed;
    warn_visibly(log, is_printed, "records nothing", "no memory is left");
    return false;
  }
  return true;
}

/// Writes which process of its launcher this one is, once, if the environment contains it.
void write_process(EventLog& events) {
  struct Variables {
    const char* rank;
    const char* size;
    const char* local_rank;
  };
  constexpr Variables kLaunchers[] = {
      {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}};
  static std::atomic_flag is_written;
  if (is_written.test_and_set()) {
    return;
  }
  for (const Variables& one : kLaunchers) {
    const char* rank = std::getenv(one.rank);
    const char* size = std::getenv(one.size);
    if (rank == nullptr || size == nullptr) {
      continue;
    }
    const char* local_rank = std::getenv(one.local_rank);
    Record record{};
    record.kind = static_cast<std::uint32_t>(RecordKind::process);
    record.rank = static_cast<std::int32_t>(std::strtol(rank, nullptr, 10));
    record.count = std::strtoull(size, nullptr, 10);
    record.root = local_rank != nullptr
                      ? static_cast<std::int32_t>(std::strtol(local_rank, nullptr, 10))
                      : -1;
    record.time_ns = now_ns();
    copy_text(record.function, sizeof record.function, one.rank);
    events.append(record);
    return;
  }
}

/// Writes the communicator to the log. Returns the types of events that are recorded.
int begin_records(int interface_version, const void* caller, Logger log, const char* name,
                  int nodes, int ranks, Context& context) {
  const int version = nvidia_version_at(caller);
  context.reads_v7 = interface_version >= 7 && version >= kNvidia231;
  context.requires_parents = interface_version <= 4 && version < kNvidia228;
  EventLog::begin_recording();
  if (!can_record(log)) {
    return 0;
  }
  warn_of_settings(log);
  EventLog* events = EventLog::instance();
  events->header().interface_version = static_cast<std::uint32_t>(interface_version);
  events->header().library_version = static_cast<std::uint32_t>(version);
  if (is_profile()) {
    write_process(*events);
  }
  if (ranks > 0) {
    Record record{};
    record.kind = static_cast<std::uint32_t>(RecordKind::communicator);
    record.rank = context.rank;
    record.communicator = context.communicator;
    record.time_ns = now_ns();
    record.count = static_cast<std::uint64_t>(ranks);
    record.root = nodes;
    copy_text(record.function, sizeof record.function, name);
    events->append(record);
  }
  return static_cast<int>(recorded_events() & kKnownSince[interface_version]);
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
  using Interface = Unnamed;
  using Type = std::uint8_t;
  using Collective = v1::Collective;
  using PointToPoint = v1::PointToPoint;
};
template <>
struct Layout<2> {
  using Interface = Unnamed;
  using Type = std::uint8_t;
  using Collective = v2::Collective;
  using PointToPoint = v2::PointToPoint;
};
template <>
struct Layout<3> {
  using Interface = Unnamed;
  using Type = std::uint8_t;
  using Collective = v3::Collective;
  using PointToPoint = v3::PointToPoint;
};
template <>
struct Layout<4> {
  using Interface = Named;
  using Type = std::uint8_t;
  using Collective = v4::Collective;
  using PointToPoint = v4::PointToPoint;
};
template <>
struct Layout<5> : Layout<4> {
  using Interface = ById;
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

/// The types by which NCCL reports an event of `type`: its own, and those of events within it.
std::uint64_t reported_by(std::uint64_t type) {
  constexpr std::uint64_t kNetwork = kProxyStep | kNetworkPlugin;
  constexpr std::uint64_t kWithinTask = kProxyOperation | kNetwork | kKernelChannel | kKernelPhase;
  constexpr std::uint64_t kCopies =
      kCopyEngineCollective | kCopyEngineSynchronization | kCopyEngineBatch;
  switch (type) {
    case kGroup:
      return kGroup | kCollective | kPointToPoint | kWithinTask;
    case kCollective:
    case kPointToPoint:
      return type | kWithinTask;
    case kProxyOperation:
      return kProxyOperation | kNetwork;
    case kProxyStep:
      return kNetwork;
    case kKernelChannel:
      return kKernelChannel | kKernelPhase;
    case kGroupCall:
      return kGroup | kCollective | kPointToPoint | kWithinTask | kGroupCall | kCollectiveCall |
             kPointToPointCall | kKernelLaunch | kCopies;
    case kCollectiveCall:
      return kCollectiveCall | kCollective | kWithinTask | kCopies;
    case kPointToPointCall:
      return kPointToPointCall | kPointToPoint | kWithinTask;
    case kCopyEngineCollective:
      return kCopies;
    default:
      return type;
  }
}

template <int version>
using Event = Descriptor<typename Layout<version>::Type>;

/// The other plug-in, nullptr if there is none with this version.
template <int version>
const typename Layout<version>::Interface* other_profiler() {
  static const auto* const found = static_cast<const typename Layout<version>::Interface*>(
      OtherPlugin::profiler().interface(version));
  return found;
}

/// Of each version, since libraries with different versions in one process have integers of their
/// own.
template <int version>
SharedMask shared_mask;

/// The second handle in a descriptor; nullptr if it has none.
template <int version>
void** parent_group(Event<version>& event) {
  if constexpr (version >= 5) {
    if (event.type == kCollective) {
      return &event.template as<v5::Collective>().parent_group;
    }
    if (event.type == kPointToPoint) {
      return &event.template as<v5::PointToPoint>().parent_group;
    }
  }
  return nullptr;
}

/// Whether NCCL reports the event to the other plug-in if that one is the only one.
template <int version>
bool is_for_other(const Context& context, const Event<version>& event, const void* parent) {
  const auto type = static_cast<std::uint64_t>(event.type);
  const auto wanted = static_cast<std::uint64_t>(shared_mask<version>.of_other());
  if ((reported_by(type) & wanted) == 0) {
    return false;
  }
  switch (type) {
    case kCopyEngineSynchronization:
    case kCopyEngineBatch:
      return parent != nullptr;
    case kCollective:
    case kPointToPoint:
    case kProxyStep:
      return parent != nullptr || !context.requires_parents;
    default:
      return true;
  }
}

/// Passes an event on with the other plug-in's handles of its parents. Returns its handle.
template <int version>
void* start_for_other(const Context& context, Event<version>& event) {
  // A proxy's operation for another process has a handle of that process.
  const bool is_remote =
      event.type == kProxyOperation && event.template as<ProxyOperation>().pid != getpid();
  void* const parent = event.parent;
  void* const others_parent = is_remote ? nullptr : others_handle(parent);
  if (!is_for_other<version>(context, event, others_parent)) {
    return nullptr;
  }
  // NCCL's descriptor is changed for the call, since its size depends on the library.
  void** const group = parent_group<version>(event);
  void* const group_parent = group != nullptr ? *group : nullptr;
  event.parent = others_parent;
  if (group != nullptr) {
    *group = others_handle(group_parent);
  }
  void* handle = nullptr;
  other_profiler<version>()->start_event(context.other.context(), &handle, &event);
  event.parent = parent;
  if (group != nullptr) {
    *group = group_parent;
  }
  return handle;
}

/// Returns the number of the event's record, 0 if it is not recorded.
template <int version>
std::uint64_t record_start(const Context& context, const Event<version>& event) {
  EventLog* events = EventLog::instance();
  if (events == nullptr || !handles().is_valid()) {
    return 0;
  }
  Record record{};
  // Some events leave the rank of their descriptor 0; before v4 it is the only one.
  record.rank = version < 4 ? event.rank : context.rank;
  record.communicator = context.communicator;
  record.time_ns = now_ns();
  record.parent = handles().number(event.parent);
  return describe<version>(record, event, context.reads_v7) ? events->append(record) : 0;
}

/// Counts an event of a profile. Returns its handle, nullptr if it has none.
template <int version>
void* count_start(const Context& context, const Event<version>& event) {
  CallProfile* profile = CallProfile::instance();
  if (profile == nullptr) {
    return nullptr;
  }
  void* parent = handle_pairs().own(event.parent);
  const auto type = static_cast<std::uint64_t>(event.type);
  if constexpr (version >= 4) {
    if (type == kKernelChannel) {
      return profile->begin_kernel(parent, event.template as<KernelChannel>().device_ns);
    }
  }
  Record record{};
  record.rank = version < 4 ? event.rank : context.rank;
  record.communicator = context.communicator;
  record.time_ns = now_ns();
  if (type == kKernelChannel || !describe<version>(record, event, context.reads_v7)) {
    return nullptr;
  }
  if constexpr (version >= 5) {
    if (type == kCollectiveCall || type == kPointToPointCall) {
      const bool is_message = type == kPointToPointCall;
      record.device_ns = reinterpret_cast<std::uintptr_t>(
          is_message ? event.template as<v5::PointToPointCall>().stream
                     : event.template as<v5::CollectiveCall>().stream);
      return profile->count_call(record, is_message
                                             ? event.template as<v5::PointToPointCall>().is_captured
                                             : event.template as<v5::CollectiveCall>().is_captured);
    }
  }
  return profile->count_operation(record, parent);
}

/// The communicator, or a call for it, no longer uses the other plug-in's context.
template <int version>
void leave_other(Context& context) {
  if (context.other.leave()) {
    other_profiler<version>()->finalize(context.other.context());
  }
}

/// Passes an event on if the other plug-in is called for this communicator and not finalized yet.
template <int version>
void* pass_on(Context& context, Event<version>& event) {
  if (!context.other.enter()) {
    return nullptr;
  }
  shared_mask<version>.update();
  void* const handle = start_for_other<version>(context, event);
  leave_other<version>(context);
  return handle;
}

template <int version>
int start_event(void* context, void** handle, Event<version>* event) {
  auto* const known = static_cast<Context*>(context);
  if (is_profile()) {
    void* const own = known != nullptr ? count_start<version>(*known, *event) : nullptr;
    void* const others = known != nullptr ? pass_on<version>(*known, *event) : nullptr;
    *handle = handle_pairs().make(own, others);
    return 0;
  }
  const std::uint64_t number = known != nullptr ? record_start<version>(*known, *event) : 0;
  void* const others = known != nullptr ? pass_on<version>(*known, *event) : nullptr;
  *handle = handles().make(number, others);
  return 0;
}

void append_of(std::uint64_t parent, Record& record) {
  record.rank = -1;
  record.time_ns = now_ns();
  record.parent = parent;
  EventLog::instance()->append(record);
}

template <int version>
int stop_event(void* handle) {
  if (is_profile()) {
    // A profile counts begins.
  } else if (const std::uint64_t number = handles().number(handle); number != 0) {
    Record record{};
    record.kind = static_cast<std::uint32_t>(RecordKind::stop);
    append_of(number, record);
  }
  if (const auto* other = other_profiler<version>()) {
    if (void* others = others_handle(handle)) {
      other->stop_event(others);
    }
    shared_mask<version>.update();
  }
  return 0;
}

template <int version>
int record_state(void* handle, int state, const StateArguments* arguments) {
  if (is_profile()) {
    if (version >= 4 && state == kKernelChannelStop && arguments != nullptr &&
        CallProfile::instance() != nullptr) {
      CallProfile::instance()->end_kernel(handle_pairs().own(handle), arguments->device_ns);
    }
  } else if (const std::uint64_t number = handles().number(handle); number != 0) {
    Record record{};
    record.kind = static_cast<std::uint32_t>(RecordKind::state);
    record.sequence = static_cast<std::uint64_t>(state);
    if (version >= 4 && arguments != nullptr) {
      if (state == kKernelChannelStop) {
        record.device_ns = arguments->device_ns;
      } else {
        record.count = arguments->bytes;
      }
    }
    append_of(number, record);
  }
  if (const auto* other = other_profiler<version>()) {
    if (void* others = others_handle(handle)) {
      other->record_state(others, state, arguments);
    }
    shared_mask<version>.update();
  }
  return 0;
}

template <int version>
int finalize(void* context) {
  if (auto* known = static_cast<Context*>(context)) {
    if (known->other.end()) {
      leave_other<version>(*known);
    }
    Contexts::instance().keep(known);
  }
  return 0;
}

/// A communicator begins. `init_other(context, mask)` calls the init of the other plug-in.
template <int version, typename InitOther>
int begin(void** context, int* mask, const void* caller, Logger log, const char* name,
          std::uint64_t communicator, int nodes, int ranks, int rank, InitOther init_other) {
  stay_loaded();
  Context* const made = Contexts::instance().make();
  *context = made;
  if (made == nullptr) {
    *mask = 0;
    warn(log, "records nothing", "no memory is left");
    return 0;
  }
  made->communicator = communicator;
  made->rank = rank;
  const int own = begin_records(version, caller, log, name, nodes, ranks, *made);
  OtherPlugin::profiler().report(log, version);
  if (other_profiler<version>() == nullptr) {
    *mask = own;
    return 0;
  }
  int* others_mask = shared_mask<version>.for_other(mask, own);
  void* others = nullptr;
  const int result = init_other(&others, others_mask);
  if (result == 0) {
    made->other.begin(others);
  }
  OtherPlugin::profiler().report_init(log, version, result);
  shared_mask<version>.begin(mask, own);
  return 0;
}

/// The oldest interfaces do not introduce their communicators.
template <int version>
int init_unnamed(void** context, int* mask) {
  return begin<version>(context, mask, __builtin_return_address(0), nullptr, nullptr, 0, 0, 0, -1,
                        [](void** others, int* others_mask) {
                          return other_profiler<version>()->init(others, others_mask);
                        });
}

int init_v4(void** context, int* mask, const char* name, std::uint64_t communicator, int nodes,
            int ranks, int rank, Logger log) {
  return begin<4>(context, mask, __builtin_return_address(0), log, name, communicator, nodes, ranks,
                  rank, [&](void** others, int* others_mask) {
                    return other_profiler<4>()->init(others, others_mask, name, communicator, nodes,
                                                     ranks, rank, log);
                  });
}

template <int version>
int init_by_id(void** context, std::uint64_t communicator, int* mask, const char* name, int nodes,
               int ranks, int rank, Logger log) {
  return begin<version>(context, mask, __builtin_return_address(0), log, name, communicator, nodes,
                        ranks, rank, [&](void** others, int* others_mask) {
                          return other_profiler<version>()->init(others, communicator, others_mask,
                                                                 name, nodes, ranks, rank, log);
                        });
}

template <int version, typename Init>
constexpr typename Layout<version>::Interface interface_of(Init init) {
  return {kName,
          init,
          start_event<version>,
          stop_event<version>,
          record_state<version>,
          finalize<version>,
          {}};
}

constexpr Unnamed kVersion1 = interface_of<1>(init_unnamed<1>);
constexpr Unnamed kVersion2 = interface_of<2>(init_unnamed<2>);
constexpr Unnamed kVersion3 = interface_of<3>(init_unnamed<3>);
constexpr Named kVersion4 = interface_of<4>(init_v4);
constexpr ById kVersion5 = interface_of<5>(init_by_id<5>);
constexpr ById kVersion6 = interface_of<6>(init_by_id<6>);
constexpr ById kVersion7 = interface_of<7>(init_by_id<7>);

const void* found_by_dlsym(int version, const void* interface) {
  // Unlike interfaces of this name exist: of RCCL, and one with a further function.
  if (version >= 7 && nvidia_version_loaded() < kNvidia231) {
    return nullptr;
  }
  const bool is_offered = OtherPlugin::is_searching() || OtherPlugin::profiler().offers(version);
  return is_offered ? interface : nullptr;
}

}  // namespace

/// Why this process has no log; empty if it has one, or needed none so far. For a program that
/// reads its own log.
extern "C" __attribute__((visibility("default"))) const char* cclmark_plugin_failure() {
  return EventLog::failure();
}

CCLMARK_INTERFACE(ncclProfiler_v1, found_by_dlsym(1, &kVersion1))
CCLMARK_INTERFACE(ncclProfiler_v2, found_by_dlsym(2, &kVersion2))
CCLMARK_INTERFACE(ncclProfiler_v3, found_by_dlsym(3, &kVersion3))
CCLMARK_INTERFACE(ncclProfiler_v4, found_by_dlsym(4, &kVersion4))
CCLMARK_INTERFACE(ncclProfiler_v5, found_by_dlsym(5, &kVersion5))
CCLMARK_INTERFACE(ncclProfiler_v6, found_by_dlsym(6, &kVersion6))
CCLMARK_INTERFACE(ncclProfiler_v7, found_by_dlsym(7, &kVersion7))

}  // namespace cclmark::plugin
