// FlagCX's interface: ids of 256 bytes by pointer, wrapped streams, groups of a communicator, and
// with FLAGCX_CLUSTER_SPLIT_LIST clusters, between which calls wait for their work.

#include <strings.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <string>
#include <string_view>

#include "common/export.hpp"
#include "nccl/communicator.hpp"
#include "nccl/enqueue.hpp"
#include "nccl/faults.hpp"
#include "nccl/group.hpp"
#include "nccl/last_error.hpp"

namespace fake_nccl {

int version() {
  return CCLMARK_FAKE_DEFAULT_VERSION;
}

namespace {

#ifdef CCLMARK_FAKE_RECENT
constexpr int kNotSupported = 9;
#else
constexpr int kNotSupported = 8;
#endif
constexpr int kLastDtype = 9;

struct FlagcxId {
  UniqueId control;
  std::array<char, 128> rest;
};

struct FlagcxStream {
  void* native;
};

/// What no caller can guess: an id of which some bytes were lost is noticed.
std::array<char, 128> rest_of(const UniqueId& control) {
  std::array<char, 128> rest;
  for (size_t i = 0; i < rest.size(); ++i) {
    rest[i] = static_cast<char>(control.bytes[i] ^ static_cast<char>(0x5a + i));
  }
  return rest;
}

bool mixed() {
  return std::getenv("FLAGCX_CLUSTER_SPLIT_LIST") != nullptr;
}

/// As adaptors of some vendors: CCLMARK_FAKE_FLAGCX_LACKS=call,call are answered so.
bool lacks(std::string_view call) {
  const char* names = std::getenv("CCLMARK_FAKE_FLAGCX_LACKS");
  std::string listed = "," + std::string(names != nullptr ? names : "") + ",";
  return listed.find("," + std::string(call) + ",") != std::string::npos;
}

void wait_for(void* stream) {
  std::promise<void> reached;
  Runtime::instance().enqueue(
      stream, [](void* promise) { static_cast<std::promise<void>*>(promise)->set_value(); },
      &reached, [](void*) {});
  reached.get_future().wait();
}

int run(void* comm, FlagcxStream* stream, const Operation& operation) {
  if (stream == nullptr || stream->native == nullptr ||
      static_cast<int>(operation.dtype) > kLastDtype) {
    return guarded([] { throw Failure{kInvalidArgument, "no stream, or no such data type"}; });
  }
  bool other = operation.reduction == Reduction::prod || operation.reduction == Reduction::avg;
  if (mixed() && reduces(operation.kind) && other) return kNotSupported;
  int code = enqueue(comm, stream->native, operation);
  if (code == kSuccess && mixed() && !in_group()) wait_for(stream->native);
  return code;
}

Operation make(Kind kind, const void* send, void* receive, size_t count, int dtype, int reduction,
               int root) {
  Operation operation;
  operation.kind = kind;
  operation.send = static_cast<const std::byte*>(send);
  operation.receive = static_cast<std::byte*>(receive);
  operation.count = count;
  operation.dtype = static_cast<Dtype>(dtype);
  operation.reduction = static_cast<Reduction>(reduction);
  operation.root = root;
  return operation;
}

int set_device(int index) {
  return guarded([&] {
    require(index == Runtime::instance().current_device(), kInvalidArgument,
            "the fake changes no devices: make it current first");
  });
}

int get_vendor(char* vendor) {
  const char* chosen = std::getenv("CCLMARK_FAKE_FLAGCX_VENDOR");
  std::strcpy(vendor, chosen != nullptr ? chosen : "NVIDIA");
  return kSuccess;
}

struct DeviceHandle {
  void* before_set_device[5];
  int (*set_device)(int);
  void* before_get_vendor[2];
  int (*get_vendor)(char*);
  void* others[19];
};

}  // namespace

namespace {

DeviceHandle* device_handle() {
  static DeviceHandle only{{}, set_device, {}, get_vendor, {}};
  return &only;
}

FlagcxId make_id() {
  FlagcxId id{create_control(), {}};
  id.rest = rest_of(id.control);
  return id;
}

}  // namespace

#ifdef CCLMARK_FAKE_RECENT
FAKE_API int flagcxDeviceHandleInit(DeviceHandle** handle) {
  *handle = device_handle();
  return kSuccess;
}

FAKE_API int flagcxGetUniqueId(FlagcxId* id) {
  return guarded([&] {
    require(id != nullptr, kInvalidArgument, "no place for the id");
    *id = make_id();
  });
}

FAKE_API int flagcxMemAlloc(void**, size_t) {
  return kNotSupported;
}
#else
// As releases to 0.4: the device handle within a group of three, ids allocated for the caller.
namespace {
struct HandlerGroup {
  FlagcxId* id;
  void* comm;
  DeviceHandle* device;
};
}  // namespace

FAKE_API int flagcxHandleInit(HandlerGroup** handler) {
  static HandlerGroup only{nullptr, nullptr, device_handle()};
  *handler = &only;
  return kSuccess;
}

FAKE_API int flagcxGetUniqueId(FlagcxId** id) {
  return guarded([&] {
    require(id != nullptr && *id == nullptr, kInvalidArgument, "no empty place for the id");
    *id = static_cast<FlagcxId*>(std::malloc(sizeof(FlagcxId)));
    **id = make_id();
  });
}
#endif

FAKE_API int flagcxGetVersion(int* number) {
  *number = 10000;
  return kSuccess;
}

FAKE_API const char* flagcxGetErrorString(int) {
  return "Not implemented.";
}

FAKE_API const char* flagcxGetLastError(void* comm) {
  if (comm == nullptr) return "Undefined: flagcxComm is not fully initialized.";
  if (lacks("GetLastError")) return "flagcxNotSupported";
  return mixed() ? "Not implemented." : last_error();
}

/// Whether FLAGCX_DEBUG and FLAGCX_DEBUG_SUBSYS select lines about the start. TRUE is no level.
bool logs_start() {
  const char* level = std::getenv("FLAGCX_DEBUG");
  if (level == nullptr || (strcasecmp(level, "INFO") != 0 && strcasecmp(level, "TRACE") != 0)) {
    return false;
  }
  const char* subsystems = std::getenv("FLAGCX_DEBUG_SUBSYS");
  std::string_view chosen = subsystems != nullptr ? subsystems : "INIT,ENV";
  return chosen.find("INIT") != chosen.npos || chosen.find("ALL") != chosen.npos;
}

/// What FlagCX logs about its clusters with FLAGCX_DEBUG=INFO: here two, of equal size.
void log_clusters(int rank, int ranks) {
  if (!logs_start()) return;
  const char* path = std::getenv("FLAGCX_DEBUG_FILE");
  FILE* file = path != nullptr ? std::fopen(path, "w") : stdout;
  if (file == nullptr) return;
  std::fprintf(file,
               "fake:1:1 [0] FLAGCX INFO rank = %d, nranks = %d, nclusters = %d, cluster_id = 0, "
               "cluster_size = %d, homo_rank = 0, has_single_rank_homo_comm = %d\n",
               rank, ranks, mixed() ? 2 : 1, mixed() ? ranks / 2 : ranks,
               mixed() && ranks == 2 ? 1 : 0);
  std::fflush(file);
  if (file != stdout) std::fclose(file);
}

FAKE_API int flagcxCommInitRank(void** comm, int ranks, const FlagcxId* id, int rank) {
  return guarded([&] {
    require(comm != nullptr && id != nullptr, kInvalidArgument, "no communicator or no id");
    require(id->rest == rest_of(id->control), kInvalidArgument, "not all of the id came");
    fail_if_asked(rank, "CommInitRank");
    *comm = communicators().add(std::make_shared<Communicator>(id->control, ranks, rank));
    log_clusters(rank, ranks);
  });
}

FAKE_API int flagcxCommDestroy(void* comm) {
  return guarded([&] {
    communicator_behind(comm)->destroy();
    communicators().take(comm);
  });
}

/// As on NCCL: what it frees, flagcxCommDestroy frees again.
FAKE_API int flagcxCommFinalize(void*) {
  std::abort();
}

FAKE_API int flagcxCommGetAsyncError(void* comm, int* code) {
  if (mixed() || lacks("CommGetAsyncError")) return kNotSupported;
  return guarded([&] { *code = communicator_behind(comm)->async_error(); });
}

FAKE_API int flagcxIsHomoComm(void* comm, int* homogeneous) {
  return guarded([&] {
    communicator_behind(comm);
    *homogeneous = mixed() ? 0 : 1;
  });
}

FAKE_API int flagcxGroupStart(void* comm) {
  return guarded([&] {
    communicator_behind(comm);
    start_group();
  });
}

FAKE_API int flagcxGroupEnd(void* comm) {
  return guarded([&] {
    communicator_behind(comm);
    end_group();
  });
}

FAKE_API int flagcxAllReduce(const void* send, void* receive, size_t count, int dtype, int op,
                             void* comm, FlagcxStream* stream) {
  return run(comm, stream, make(Kind::all_reduce, send, receive, count, dtype, op, 0));
}

FAKE_API int flagcxReduceScatter(const void* send, void* receive, size_t count, int dtype, int op,
                                 void* comm, FlagcxStream* stream) {
  return run(comm, stream, make(Kind::reduce_scatter, send, receive, count, dtype, op, 0));
}

FAKE_API int flagcxReduce(const void* send, void* receive, size_t count, int dtype, int op,
                          int root, void* comm, FlagcxStream* stream) {
  return run(comm, stream, make(Kind::reduce, send, receive, count, dtype, op, root));
}

FAKE_API int flagcxAllGather(const void* send, void* receive, size_t count, int dtype, void* comm,
                             FlagcxStream* stream) {
  return run(comm, stream, make(Kind::all_gather, send, receive, count, dtype, 0, 0));
}

FAKE_API int flagcxBroadcast(const void* send, void* receive, size_t count, int dtype, int root,
                             void* comm, FlagcxStream* stream) {
  return run(comm, stream, make(Kind::broadcast, send, receive, count, dtype, 0, root));
}

FAKE_API int flagcxGather(const void* send, void* receive, size_t count, int dtype, int root,
                          void* comm, FlagcxStream* stream) {
  if (lacks("Gather")) return kNotSupported;
  return run(comm, stream, make(Kind::gather, send, receive, count, dtype, 0, root));
}

FAKE_API int flagcxScatter(const void* send, void* receive, size_t count, int dtype, int root,
                           void* comm, FlagcxStream* stream) {
  return run(comm, stream, make(Kind::scatter, send, receive, count, dtype, 0, root));
}

FAKE_API int flagcxAlltoAll(const void* send, void* receive, size_t count, int dtype, void* comm,
                            FlagcxStream* stream) {
  return run(comm, stream, make(Kind::alltoall, send, receive, count, dtype, 0, 0));
}

FAKE_API int flagcxSend(const void* send, size_t count, int dtype, int peer, void* comm,
                        FlagcxStream* stream) {
  return run(comm, stream, make(Kind::send, send, nullptr, count, dtype, 0, peer));
}

FAKE_API int flagcxRecv(void* receive, size_t count, int dtype, int peer, void* comm,
                        FlagcxStream* stream) {
  return run(comm, stream, make(Kind::receive, nullptr, receive, count, dtype, 0, peer));
}

FAKE_API int flagcxAlltoAllv(const void* send, const size_t* send_counts,
                             const size_t* send_offsets, void* receive,
                             const size_t* receive_counts, const size_t* receive_offsets, int dtype,
                             void* comm, FlagcxStream* stream) {
  if (dtype < 0 || dtype > kLastDtype) return kInvalidArgument;
  size_t width = size_bytes(static_cast<Dtype>(dtype));
  auto from = static_cast<const std::byte*>(send);
  auto to = static_cast<std::byte*>(receive);
  int code = flagcxGroupStart(comm);
  if (code != kSuccess) return code;
  int ranks = communicator_behind(comm)->ranks();
  for (int peer = 0; peer < ranks && code == kSuccess; ++peer) {
    auto i = static_cast<size_t>(peer);
    if (send_counts[i] > 0) {
      code = flagcxSend(from + send_offsets[i] * width, send_counts[i], dtype, peer, comm, stream);
    }
    if (receive_counts[i] > 0 && code == kSuccess) {
      code =
          flagcxRecv(to + receive_offsets[i] * width, receive_counts[i], dtype, peer, comm, stream);
    }
  }
  int ended = flagcxGroupEnd(comm);
  return code != kSuccess ? code : ended;
}

}  // namespace fake_nccl
