// The tuner that NCCL loads by NCCL_TUNER_PLUGIN. It writes down what NCCL predicts and changes
// nothing: NCCL decides as it would without it.

#include <algorithm>
#include <cstring>
#include <new>

#include "plugin/event_log.hpp"
#include "plugin/layouts.hpp"

#define CCLMARK_EXPORT extern "C" __attribute__((visibility("default")))

namespace cclmark::plugin {

namespace {

constexpr char kName[] = "cclmark (observes)";

struct Context {
  std::uint64_t communicator;
};

int begin(void** context, std::uint64_t communicator) {
  *context = new (std::nothrow) Context{communicator};
  return 0;
}

int init(std::size_t /*ranks*/, std::size_t /*nodes*/, Logger /*log*/, void** context) {
  return begin(context, 0);
}

int init_by_id(void** context, std::uint64_t communicator, std::size_t /*ranks*/,
               std::size_t /*nodes*/, Logger /*log*/, void* /*domains*/, void* /*constants*/) {
  return begin(context, communicator);
}

int end(void* context) {
  delete static_cast<Context*>(context);
  return 0;
}

/// `table` is an array of `algorithms` × `protocols` floats behind each other, microseconds.
int observe(void* context, int function, std::size_t bytes, const float* table, int algorithms,
            int protocols) {
  EventLog* events = EventLog::instance();
  if (events == nullptr || table == nullptr || protocols != kProtocols) {
    return 0;
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
  return 0;
}

/// v2 shows no table.
int get_info_v2(void* /*context*/, int /*function*/, std::size_t /*bytes*/, int /*collnet*/,
                int /*nvls*/, int /*operations*/, int* /*algorithm*/, int* /*protocol*/,
                int* /*channels*/) {
  return 0;
}

int get_info_v3(void* context, int function, std::size_t bytes, int /*operations*/, float** table,
                int algorithms, int protocols, int* /*channels*/) {
  return observe(context, function, bytes, reinterpret_cast<const float*>(table), algorithms,
                 protocols);
}

int get_info_v4(void* context, int function, std::size_t bytes, int /*operations*/, float** table,
                int algorithms, int protocols, int /*registered*/, int* /*channels*/) {
  return observe(context, function, bytes, reinterpret_cast<const float*>(table), algorithms,
                 protocols);
}

}  // namespace

CCLMARK_EXPORT const TunerV2 ncclTunerPlugin_v2 = {kName, init, get_info_v2, end};
CCLMARK_EXPORT const TunerV3 ncclTunerPlugin_v3 = {kName, init, get_info_v3, end};
CCLMARK_EXPORT const TunerV4 ncclTunerPlugin_v4 = {kName, init, get_info_v4, end};
CCLMARK_EXPORT const TunerV5 ncclTunerPlugin_v5 = {kName, init_by_id, get_info_v4, end};
CCLMARK_EXPORT const TunerV6 ncclTunerPlugin_v6 = {kName, init_by_id, get_info_v4, end, nullptr};

}  // namespace cclmark::plugin
