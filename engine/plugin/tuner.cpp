// The tuner that NCCL loads by NCCL_TUNER_PLUGIN. It writes down what NCCL predicts. Then another
// tuner decides, if there is one, otherwise NCCL as it would without a tuner.

#include <new>

#include "plugin/event_log.hpp"
#include "plugin/layouts.hpp"
#include "plugin/other_plugin.hpp"

namespace cclmark::plugin {

namespace {

constexpr char kName[] = "cclmark (observes)";

struct Context {
  std::uint64_t communicator;
  bool is_other_called;
  void* other;  // the other tuner's context
};

template <int version>
struct Layout;
template <>
struct Layout<2> {
  using Interface = TunerV2;
};
template <>
struct Layout<3> {
  using Interface = TunerV3;
};
template <>
struct Layout<4> {
  using Interface = TunerV4;
};
template <>
struct Layout<5> {
  using Interface = TunerV5;
};
template <>
struct Layout<6> {
  using Interface = TunerV6;
};

/// The other tuner, nullptr if there is none with this version.
template <int version>
const typename Layout<version>::Interface* other_tuner() {
  static const auto* const found = static_cast<const typename Layout<version>::Interface*>(
      OtherPlugin::tuner().interface(version));
  return found;
}

/// The other tuner's context, if it decides for this communicator; otherwise nullptr.
const Context* context_with_other(void* context) {
  const auto* known = static_cast<const Context*>(context);
  return known != nullptr && known->is_other_called ? known : nullptr;
}

/// A communicator begins. `init_other(context)` calls the init of the other tuner.
template <int version, typename InitOther>
int begin(void** context, std::uint64_t communicator, Logger log, InitOther init_other) {
  stay_loaded();
  auto* made = new (std::nothrow) Context{communicator, false, nullptr};
  *context = made;
  OtherPlugin::tuner().report(log, version);
  if (made != nullptr && other_tuner<version>() != nullptr) {
    const int result = init_other(&made->other);
    made->is_other_called = result == 0;
    OtherPlugin::tuner().report_init(log, version, result);
  }
  return 0;
}

template <int version>
int init(std::size_t ranks, std::size_t nodes, Logger log, void** context) {
  return begin<version>(context, 0, log, [&](void** others) {
    return other_tuner<version>()->init(ranks, nodes, log, others);
  });
}

template <int version>
int init_by_id(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t nodes,
               Logger log, void* domains, void* constants) {
  return begin<version>(context, communicator, log, [&](void** others) {
    return other_tuner<version>()->init(others, communicator, ranks, nodes, log, domains,
                                        constants);
  });
}

template <int version>
int end(void* context) {
  int result = 0;
  if (const Context* known = context_with_other(context)) {
    if constexpr (version <= 4) {
      result = other_tuner<version>()->destroy(known->other);
    } else {
      result = other_tuner<version>()->finalize(known->other);
    }
  }
  delete static_cast<Context*>(context);
  return result;
}

/// `table` is an array of `algorithms` × `protocols` floats behind each other, microseconds.
void observe(void* context, int function, std::size_t bytes, float** costs_us, int algorithms,
             int protocols) {
  const auto* table = reinterpret_cast<const float*>(costs_us);
  EventLog* events = EventLog::instance();
  if (events == nullptr || table == nullptr || protocols != kProtocols) {
    return;
  }
  CostRecord record{};
  record.kind = static_cast<std::uint32_t>(RecordKind::cost_table);
  record.rank = -1;
  record.communicator = context != nullptr ? static_cast<Context*>(context)->communicator : 0;
  record.time_ns = now_ns();
  record.bytes = bytes;
  record.function = static_cast<std::uint32_t>(function);
  for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm) {
    for (int protocol = 0; protocol < kProtocols; ++protocol) {
      record.cost_us[algorithm][protocol] =
          algorithm < algorithms ? table[algorithm * kProtocols + protocol] : -1.0F;
    }
  }
  events->append(record);
}

/// v2 shows no table.
int get_info_v2(void* context, int function, std::size_t bytes, int collnet, int nvls,
                int operations, int* algorithm, int* protocol, int* channels) {
  const Context* known = context_with_other(context);
  return known == nullptr ? 0
                          : other_tuner<2>()->get_info(known->other, function, bytes, collnet, nvls,
                                                       operations, algorithm, protocol, channels);
}

int get_info_v3(void* context, int function, std::size_t bytes, int operations, float** table,
                int algorithms, int protocols, int* channels) {
  observe(context, function, bytes, table, algorithms, protocols);
  const Context* known = context_with_other(context);
  return known == nullptr ? 0
                          : other_tuner<3>()->get_info(known->other, function, bytes, operations,
                                                       table, algorithms, protocols, channels);
}

/// From v4 on.
template <int version>
int get_info(void* context, int function, std::size_t bytes, int operations, float** table,
             int algorithms, int protocols, int registered, int* channels) {
  observe(context, function, bytes, table, algorithms, protocols);
  const Context* known = context_with_other(context);
  return known == nullptr
             ? 0
             : other_tuner<version>()->get_info(known->other, function, bytes, operations, table,
                                                algorithms, protocols, registered, channels);
}

int get_chunk_bytes(void* context, int function, std::size_t bytes, int algorithm, int protocol,
                    int channels, std::size_t* chunk_bytes) {
  const Context* known = context_with_other(context);
  const auto get_others = other_tuner<6>() != nullptr ? other_tuner<6>()->get_chunk_bytes : nullptr;
  return known == nullptr || get_others == nullptr
             ? 0
             : get_others(known->other, function, bytes, algorithm, protocol, channels,
                          chunk_bytes);
}

constexpr TunerV2 kVersion2 = {kName, init<2>, get_info_v2, end<2>};
constexpr TunerV3 kVersion3 = {kName, init<3>, get_info_v3, end<3>};
constexpr TunerV4 kVersion4 = {kName, init<4>, get_info<4>, end<4>};
constexpr TunerV5 kVersion5 = {kName, init_by_id<5>, get_info<5>, end<5>};
constexpr TunerV6 kVersion6 = {kName, init_by_id<6>, get_info<6>, end<6>, get_chunk_bytes};

const void* found_by_dlsym(int version, const void* interface) {
  const bool is_offered = OtherPlugin::is_searching() || OtherPlugin::tuner().offers(version);
  return is_offered ? interface : nullptr;
}

}  // namespace

CCLMARK_INTERFACE(ncclTunerPlugin_v2, found_by_dlsym(2, &kVersion2))
CCLMARK_INTERFACE(ncclTunerPlugin_v3, found_by_dlsym(3, &kVersion3))
CCLMARK_INTERFACE(ncclTunerPlugin_v4, found_by_dlsym(4, &kVersion4))
CCLMARK_INTERFACE(ncclTunerPlugin_v5, found_by_dlsym(5, &kVersion5))
CCLMARK_INTERFACE(ncclTunerPlugin_v6, found_by_dlsym(6, &kVersion6))

}  // namespace cclmark::plugin
