#pragma once

// The structures that NCCL hands to plug-ins, as far as they are read. Their fields are part of
// NCCL's binary interface: the interface's version is in the name of the exported symbol.

#include <cstddef>
#include <cstdint>

namespace cclmark::plugin {

/// NCCL's logger.
using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);

enum EventType : std::uint64_t {
  kGroup = 1U << 0U,
  kCollective = 1U << 1U,
  kPointToPoint = 1U << 2U,
  kProxyOperation = 1U << 3U,
  kProxyStep = 1U << 4U,
  kProxyControl = 1U << 5U,
  kKernelChannel = 1U << 6U,
  kNetworkPlugin = 1U << 7U,
  kGroupCall = 1U << 8U,
  kCollectiveCall = 1U << 9U,
  kPointToPointCall = 1U << 10U,
  kKernelLaunch = 1U << 11U,
  kCopyEngineCollective = 1U << 12U,
  kCopyEngineSynchronization = 1U << 13U,
  kCopyEngineBatch = 1U << 14U,
  kKernelPhase = 1U << 15U,
};

constexpr int kKernelChannelStop = 22;  // a state, with the time of the device

struct ProxyOperation {
  std::int32_t pid;
  std::uint8_t channel;
  int peer;
  int steps;
  int chunk_bytes;
  int is_send;
};

struct ProxyStep {
  int step;
};

/// v1 to v3 lack the time.
struct KernelChannel {
  std::uint8_t channel;
  std::uint64_t device_ns;
};

namespace v1 {
struct Collective {
  const char* name;
  std::uint64_t communicator;
  std::uint64_t sequence;
  std::uint8_t function;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  std::uint8_t datatype;
  std::uint32_t reduction;
  std::size_t traffic_bytes;
  std::uint8_t channels;
  std::uint8_t warps;
  std::uint8_t algorithm;
  std::uint8_t protocol;
  int is_collnet;
  int is_nvls;
};
struct PointToPoint {
  const char* name;
  std::uint64_t communicator;
  std::uint8_t function;
  void* buffer;
  std::uint8_t datatype;
  std::size_t count;
  int peer;
};
}  // namespace v1

namespace v2 {
struct Collective {
  const char* name;
  std::uint64_t communicator;
  std::uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  const char* datatype;
  std::size_t traffic_bytes;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
};
struct PointToPoint {
  const char* name;
  std::uint64_t communicator;
  const char* function;
  void* buffer;
  const char* datatype;
  std::size_t count;
  int peer;
};
}  // namespace v2

namespace v3 {
struct Collective {
  const char* name;
  std::uint64_t communicator;
  std::uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  const char* datatype;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
};
using v2::PointToPoint;
}  // namespace v3

namespace v4 {
/// Also of v5 to v7, which append fields.
struct Collective {
  std::uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  const char* datatype;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
};
struct PointToPoint {
  const char* function;
  void* buffer;
  const char* datatype;
  std::size_t count;
  int peer;
  std::uint8_t channels;
};
}  // namespace v4

namespace v5 {
/// The beginning of it: v7 appends fields.
struct Collective {
  v4::Collective common;
  void* parent_group;
};
struct PointToPoint {
  v4::PointToPoint common;
  void* parent_group;
};
struct CollectiveCall {
  const char* function;
  std::size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool is_captured;
};
struct PointToPointCall {
  const char* function;
  std::size_t count;
  const char* datatype;
  void* stream;
  bool is_captured;
};
}  // namespace v5

namespace v6 {
struct CopyEngineCollective {
  std::uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  const char* datatype;
  const char* synchronization;
  bool is_synchronized_within_batch;
  std::uint32_t batch_size;
  std::uint32_t batches;
};
}  // namespace v6

namespace v7 {
/// Of NVIDIA's 2.31 and newer. Other libraries have other structures behind v5's fields.
struct Collective {
  v5::Collective common;
  const char* kernel;
  bool is_symmetric;
};
}  // namespace v7

/// The beginning of every descriptor; what follows depends on `type` and on the version.
template <typename Type>
struct Descriptor {
  Type type;
  void* parent;
  int rank;
  alignas(8) unsigned char content[8];

  template <typename Content>
  const Content& as() const {
    return *reinterpret_cast<const Content*>(content);
  }
  template <typename Content>
  Content& as() {
    return *reinterpret_cast<Content*>(content);
  }
};
static_assert(offsetof(Descriptor<std::uint8_t>, parent) == 8);
static_assert(offsetof(Descriptor<std::uint8_t>, content) == 24);
static_assert(offsetof(Descriptor<std::uint64_t>, content) == 24);

/// Of recordEventState. v1 to v3 have no time of the device.
union StateArguments {
  std::size_t bytes;
  std::uint64_t device_ns;
};

template <typename Type, typename... Init>
struct Profiler {
  const char* name;
  int (*init)(Init...);
  int (*start_event)(void* context, void** handle, Descriptor<Type>* descriptor);
  int (*stop_event)(void* handle);
  int (*record_state)(void* handle, int state, const StateArguments* arguments);
  int (*finalize)(void* context);
  void* reserved[8];  // a variant of v7 has a further function
};

using Unnamed = Profiler<std::uint8_t, void**, int*>;
using Named =
    Profiler<std::uint8_t, void**, int*, const char*, std::uint64_t, int, int, int, Logger>;
using ById =
    Profiler<std::uint64_t, void**, std::uint64_t, int*, const char*, int, int, int, Logger>;

struct TunerV2 {
  const char* name;
  int (*init)(std::size_t ranks, std::size_t nodes, Logger log, void** context);
  int (*get_info)(void* context, int function, std::size_t bytes, int collnet, int nvls,
                  int operations, int* algorithm, int* protocol, int* channels);
  int (*destroy)(void* context);
};

struct TunerV3 {
  const char* name;
  int (*init)(std::size_t ranks, std::size_t nodes, Logger log, void** context);
  int (*get_info)(void* context, int function, std::size_t bytes, int operations, float** table,
                  int algorithms, int protocols, int* channels);
  int (*destroy)(void* context);
};

struct TunerV4 {
  const char* name;
  int (*init)(std::size_t ranks, std::size_t nodes, Logger log, void** context);
  int (*get_info)(void* context, int function, std::size_t bytes, int operations, float** table,
                  int algorithms, int protocols, int registered, int* channels);
  int (*destroy)(void* context);
};

struct TunerV5 {
  const char* name;
  int (*init)(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t nodes,
              Logger log, void* domains, void* constants);
  int (*get_info)(void* context, int function, std::size_t bytes, int operations, float** table,
                  int algorithms, int protocols, int registered, int* channels);
  int (*finalize)(void* context);
};

struct TunerV6 {
  const char* name;
  int (*init)(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t nodes,
              Logger log, void* domains, void* constants);
  int (*get_info)(void* context, int function, std::size_t bytes, int operations, float** table,
                  int algorithms, int protocols, int registered, int* channels);
  int (*finalize)(void* context);
  int (*get_chunk_bytes)(void* context, int function, std::size_t bytes, int algorithm,
                         int protocol, int channels, std::size_t* chunk_bytes);  // optional
};

}  // namespace cclmark::plugin
