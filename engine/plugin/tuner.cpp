// The tuner that NCCL loads by NCCL_TUNER_PLUGIN. It writes down what NCCL predicts. Then another
// tuner decides, if there is one. Where a rule of the tuner table matches, the rule decides
// instead. Without either, NCCL decides as it would without a tuner.

#include <cstring>
#include <new>

#include "plugin/communicator_rules.hpp"
#include "plugin/event_log.hpp"
#include "plugin/layouts.hpp"
#include "plugin/logging.hpp"
#include "plugin/other_plugin.hpp"
#include "plugin/surroundings.hpp"

namespace cclmark::plugin {

namespace {

constexpr char kName[] = "cclmark";
constexpr int kNewestForRccl = 4;  // RCCL's version 5 has another layout
constexpr int kMostCells = 128;    // of a cost table
constexpr int kAlgorithmsOfV2 = 6;
constexpr int kNoMemory = 2;  // a result of NCCL: a system error

struct Context {
  std::uint64_t communicator;
  bool is_other_called;
  void* other;  // the other tuner's context
  CommunicatorRules rules;
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
int begin(void** context, const void* caller, std::uint64_t communicator, std::size_t ranks,
          std::size_t nodes, Logger log, InitOther init_other) {
  stay_loaded();
  *context = nullptr;  // for the library's clean-up after a failure
  auto* made = new (std::nothrow) Context{communicator, false, nullptr, {}};
  if (made == nullptr) {
    warn(log, "fails", "no memory is left");
    return kNoMemory;
  }
  if (const int result = made->rules.load(caller, ranks, nodes, log); result != 0) {
    delete made;
    return result;
  }
  *context = made;
  if (EventLog::if_recording() == nullptr) {
    report_missing_log(log);
  }
  OtherPlugin::tuner().report(log, version);
  if (other_tuner<version>() != nullptr) {
    const int result = init_other(&made->other);
    made->is_other_called = result == 0;
    OtherPlugin::tuner().report_init(log, version, result);
  }
  return 0;
}

template <int version>
int init(std::size_t ranks, std::size_t nodes, Logger log, void** context) {
  return begin<version>(
      context, __builtin_return_address(0), 0, ranks, nodes, log,
      [&](void** others) { return other_tuner<version>()->init(ranks, nodes, log, others); });
}

template <int version>
int init_by_id(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t nodes,
               Logger log, void* domains, void* constants) {
  return begin<version>(context, __builtin_return_address(0), communicator, ranks, nodes, log,
                        [&](void** others) {
                          return other_tuner<version>()->init(others, communicator, ranks, nodes,
                                                              log, domains, constants);
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

/// The log for predictions and rules; nullptr if there is none. A profile has neither: its records
/// are for what ran, with the algorithm and protocol that NCCL used.
EventLog* log_of_decisions() {
  return is_profile() ? nullptr : EventLog::if_recording();
}

/// `table` is an array of `algorithms` × `protocols` floats behind each other, microseconds.
/// Returns the number of the record, 0 if there is none.
std::uint64_t observe(const Context* context, int function, std::size_t bytes, const float* table,
                      int algorithms, int protocols) {
  EventLog* events = log_of_decisions();
  if (events == nullptr || table == nullptr || protocols != kProtocols) {
    return 0;
  }
  CostRecord record{};
  record.kind = static_cast<std::uint32_t>(RecordKind::cost_table);
  record.rank = -1;
  record.communicator = context != nullptr ? context->communicator : 0;
  record.time_ns = now_ns();
  record.bytes = bytes;
  record.function = static_cast<std::uint32_t>(function);
  for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm) {
    for (int protocol = 0; protocol < kProtocols; ++protocol) {
      record.cost_us[algorithm][protocol] =
          algorithm < algorithms ? table[algorithm * kProtocols + protocol] : -1.0F;
    }
  }
  return events->append(record);
}

/// Writes down that a rule matched a call. `observed`: the record of the predictions.
void record_rule(const Context& context, const Rule& rule, std::size_t bytes, bool is_applied,
                 std::uint64_t observed) {
  EventLog* events = log_of_decisions();
  if (events == nullptr) {
    return;
  }
  Record record{};
  record.kind = static_cast<std::uint32_t>(RecordKind::tuner_rule);
  record.rank = -1;
  record.communicator = context.communicator;
  record.time_ns = now_ns();
  record.parent = observed;
  record.sequence = static_cast<std::uint64_t>(rule.line);
  record.count = bytes;
  record.root = is_applied ? 1 : 0;
  record.channels = static_cast<std::uint16_t>(rule.channels);
  copy_text(record.function, sizeof record.function, function_name(rule.function));
  copy_text(record.algorithm, sizeof record.algorithm, algorithm_name(rule.algorithm));
  copy_text(record.protocol, sizeof record.protocol, protocol_name(rule.protocol));
  events->append(record);
}

/// The rule for a call if its combination is available; otherwise nullptr, which is reported.
const Rule* usable(Context* context, const Rule* rule, std::size_t bytes, bool is_available,
                   std::uint64_t observed) {
  if (rule == nullptr) {
    return nullptr;
  }
  record_rule(*context, *rule, bytes, is_available, observed);
  if (!is_available) {
    context->rules.report_unavailable(*rule);
    return nullptr;
  }
  return rule;
}

const Rule* matching(Context* context, int function, std::size_t bytes) {
  return context != nullptr ? context->rules.match(function, bytes) : nullptr;
}

/// v2 shows no table.
int get_info_v2(void* context, int function, std::size_t bytes, int collnet, int nvls,
                int operations, int* algorithm, int* protocol, int* channels) {
  auto* own = static_cast<Context*>(context);
  const Rule* rule = matching(own, function, bytes);
  const bool is_available = rule != nullptr && rule->algorithm < kAlgorithmsOfV2 &&
                            (collnet != 0 || !is_collnet(rule->algorithm)) &&
                            (nvls != 0 || !is_nvls(rule->algorithm));
  rule = usable(own, rule, bytes, is_available, 0);
  const int channels_before = *channels;
  if (const Context* known = context_with_other(context)) {
    const int result = other_tuner<2>()->get_info(known->other, function, bytes, collnet, nvls,
                                                  operations, algorithm, protocol, channels);
    if (result != 0) {
      return result;
    }
  }
  if (rule != nullptr) {
    *algorithm = rule->algorithm;
    *protocol = rule->protocol;
    *channels = rule->channels != 0 ? rule->channels : channels_before;
  }
  return 0;
}

/// From v3 on. `ask_other(context)` calls the other tuner, whose changes are discarded where a rule
/// is applied.
template <typename AskOther>
int decide(void* context, int function, std::size_t bytes, float** costs_us, int algorithms,
           int protocols, int* channels, AskOther ask_other) {
  auto* own = static_cast<Context*>(context);
  auto* const table = reinterpret_cast<float*>(costs_us);
  const std::uint64_t observed = observe(own, function, bytes, table, algorithms, protocols);
  const Rule* rule = matching(own, function, bytes);
  const int cell = rule != nullptr ? rule->algorithm * protocols + rule->protocol : 0;
  const int cells = algorithms * protocols;
  const bool is_available = rule != nullptr && table != nullptr && rule->algorithm < algorithms &&
                            rule->protocol < protocols && cells <= kMostCells && table[cell] >= 0;
  rule = usable(own, rule, bytes, is_available, observed);
  const int channels_before = *channels;
  const std::size_t table_bytes = sizeof(float) * static_cast<std::size_t>(cells);
  float before[kMostCells];
  if (rule != nullptr) {
    std::memcpy(before, table, table_bytes);
  }
  if (const Context* known = context_with_other(context)) {
    if (const int result = ask_other(known->other); result != 0) {
      return result;
    }
  }
  if (rule != nullptr) {
    std::memcpy(table, before, table_bytes);
    table[cell] = 0.0F;
    *channels = rule->channels != 0 ? rule->channels : channels_before;
  }
  return 0;
}

int get_info_v3(void* context, int function, std::size_t bytes, int operations, float** table,
                int algorithms, int protocols, int* channels) {
  return decide(context, function, bytes, table, algorithms, protocols, channels, [&](void* other) {
    return other_tuner<3>()->get_info(other, function, bytes, operations, table, algorithms,
                                      protocols, channels);
  });
}

/// From v4 on.
template <int version>
int get_info(void* context, int function, std::size_t bytes, int operations, float** table,
             int algorithms, int protocols, int registered, int* channels) {
  return decide(context, function, bytes, table, algorithms, protocols, channels, [&](void* other) {
    return other_tuner<version>()->get_info(other, function, bytes, operations, table, algorithms,
                                            protocols, registered, channels);
  });
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
  if (version > kNewestForRccl && is_rccl_alone()) {
    return nullptr;
  }
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
