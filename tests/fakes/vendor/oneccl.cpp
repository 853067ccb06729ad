// oneCCL 2022.2's C interface, or with fewer functions that of 2022.1 or of no release at all, as
// its plugin for processors does it: memory of the host, calls that return when their work is done.

#include <unistd.h>

#include "common/environment.hpp"
#include "common/export.hpp"
#include "vendor/shaped.hpp"

namespace fake_nccl {

/// Before there were 8-bit floats.
int version() {
  return 20000;
}

}  // namespace fake_nccl

namespace fake_shaped {
namespace {

enum Code : int {
  kFine = 0,
  kError = 1,
  kSystem = 2,
  kInternal = 3,
  kArgument = 4,
  kUsage = 5,
  kFailureCpu = 8,
  kPluginException = 11,
};

#ifdef CCLMARK_FAKE_RECENT
constexpr int kVersion = 20220200;
#else
constexpr int kVersion = 20220102;
#endif
constexpr int kDtypes = 10;
constexpr int kReductions = 4;

using OneId = WholeId<4096>;
static_assert(sizeof(OneId) == 4096);

int code_of(int result) {
  switch (result) {
    case fake_nccl::kSystemError:
      return kSystem;
    case fake_nccl::kInternalError:
      return kInternal;
    case fake_nccl::kInvalidArgument:
      return kArgument;
    case fake_nccl::kInvalidUsage:
      return kUsage;
    case fake_nccl::kRemoteError:
      return kFailureCpu;
    default:
      return kError;
  }
}

template <typename Body>
int told(Body body) noexcept {
  return fake_shaped::told("oneCCL", code_of, body);
}

Dtype dtype_of(int value) {
  if (value < 0 || value >= kDtypes) throw Refusal{kPluginException, "the data type is none"};
  auto known = static_cast<Dtype>(value);
  // Of one size: only the data tell.
  return misreads("dtype") && known == Dtype::float32 ? Dtype::int32 : known;
}

Reduction known_reduction(int value) {
  if (value < 0 || value >= kReductions) {
    throw Refusal{kPluginException, "Unsupported onecclRedOp_t value"};
  }
  return reduction_of(value, kReductions);
}

/// The line about its algorithm, which CCL_LOG_LEVEL=debug asks for. Standard output keeps it until
/// it is flushed.
void log_algorithm(int rank, Kind kind, size_t count, Dtype dtype) {
  if (!fake_common::environment_is("CCL_LOG_LEVEL", "debug")) return;
  const char* name = kind == Kind::all_reduce       ? "allreduce"
                     : kind == Kind::reduce_scatter ? "reduce_scatter"
                     : kind == Kind::all_gather     ? "allgatherv"
                     : kind == Kind::broadcast      ? "bcast"
                     : kind == Kind::reduce         ? "reduce"
                                                    : nullptr;
  if (name == nullptr) return;
  bool small = count * fake_nccl::size_bytes(dtype) <= 8192;
  if (fake_common::environment_is_rank("CCLMARK_FAKE_ODD_ALGORITHM", rank)) small = !small;
  std::printf("2026:11:24-04:22:55:%d:[%d] |CCL_DEBUG| selector_impl.hpp:355 get: ", getpid(),
              rank);
  if (fake_common::environment_is_rank("CCLMARK_FAKE_BROKEN_LOG", rank)) {
    std::printf("selected algo: coll %s, cou\n", name);
  } else {
    std::printf("selected algo: coll %s, count %zu, algo %s\n", name, count,
                small ? "recursive_doubling" : "ring");
  }
}

/// What fails while the work is done fails the call that it is done in.
void run(void* comm, void* stream, Kind kind, const void* send, void* receive, size_t count,
         Dtype dtype, Reduction reduction = Reduction::sum, int root = 0) {
  log_algorithm(fake_nccl::communicator_behind(comm)->rank(), kind, count, dtype);
  submit(comm, stream, kind, send, receive, count, dtype, reduction, root);
  fake_nccl::Result state = fake_nccl::communicator_behind(comm)->async_error();
  if (state != fake_nccl::kSuccess) throw Failure{state, fake_nccl::last_error()};
}

}  // namespace

FAKE_API const char* onecclGetErrorString(int code) {
  switch (code) {
    case kFine:
      return "Success";
    case kError:
      return "Generic error";
    case kSystem:
      return "System error";
    case kInternal:
      return "Internal error";
    case kArgument:
      return "Invalid argument";
    case kUsage:
      return "Invalid usage";
    case kFailureCpu:
      return "CPU failure";
    default:
      return "Unknown error code";
  }
}

#ifdef CCLMARK_FAKE_RECENT
FAKE_API const char* onecclGetLastError(void*) {
  return fake_nccl::last_error();
}
#endif

FAKE_API int onecclGetVersion(int* version) {
  return told([&] {
    require(version != nullptr, fake_nccl::kInvalidArgument, "no place for the version");
    *version = kVersion;
  });
}

FAKE_API int onecclGetUniqueId(OneId* id) {
  return told([&] {
    require(id != nullptr, fake_nccl::kInvalidArgument, "no place for the id");
    *id = OneId::of(fake_nccl::create_control());
  });
}

FAKE_API int onecclCommInitRank(void** comm, size_t ranks, OneId id, int rank) {
  return told([&] {
    require(comm != nullptr, fake_nccl::kInvalidArgument, "no place for the communicator");
    id.require_whole();
    fake_nccl::fail_if_asked(rank, "CommInitRank");
    require(ranks <= static_cast<size_t>(fake_nccl::kMostRanks), fake_nccl::kInvalidArgument,
            "so many ranks are none of the fake's");
    *comm = fake_nccl::communicators().add(
        std::make_shared<fake_nccl::Communicator>(id.control, static_cast<int>(ranks), rank));
  });
}

FAKE_API int onecclCommDestroy(void* comm) {
  return told([&] {
    std::shared_ptr<fake_nccl::Communicator> ended = fake_nccl::communicator_behind(comm);
    fake_nccl::communicators().take(comm);
    ended->destroy();
  });
}

FAKE_API int onecclGroupStart() {
  return told([] { fake_nccl::start_group(); });
}

FAKE_API int onecclGroupEnd() {
  return told([] { fake_nccl::end_group(); });
}

FAKE_API int onecclAllReduce(void* send, void* receive, size_t count, int dtype, int op, void* comm,
                             void* stream) {
  return told([&] {
    run(comm, stream, Kind::all_reduce, send, receive, count, dtype_of(dtype), known_reduction(op));
  });
}

FAKE_API int onecclReduceScatter(const void* send, void* receive, size_t count, int dtype, int op,
                                 void* comm, void* stream) {
  return told([&] {
    run(comm, stream, Kind::reduce_scatter, send, receive, count, dtype_of(dtype),
        known_reduction(op));
  });
}

#ifndef CCLMARK_FAKE_BARE
FAKE_API int onecclReduce(const void* send, void* receive, size_t count, int dtype, int op,
                          int root, void* comm, void* stream) {
  return told([&] {
    run(comm, stream, Kind::reduce, send, receive, count, dtype_of(dtype), known_reduction(op),
        rank_of(root, comm));
  });
}
#endif

FAKE_API int onecclAllGather(const void* send, void* receive, size_t count, int dtype, void* comm,
                             void* stream) {
  return told([&] { run(comm, stream, Kind::all_gather, send, receive, count, dtype_of(dtype)); });
}

FAKE_API int onecclBroadcast(const void* send, void* receive, size_t count, int dtype, int root,
                             void* comm, void* stream) {
  return told([&] {
    run(comm, stream, Kind::broadcast, send, receive, count, dtype_of(dtype), Reduction::sum,
        rank_of(root, comm));
  });
}

#ifdef CCLMARK_FAKE_RECENT
FAKE_API int onecclScatter(const void* send, void* receive, size_t count, int dtype, int root,
                           void* comm, void* stream) {
  return told([&] {
    run(comm, stream, Kind::scatter, send, receive, count, dtype_of(dtype), Reduction::sum,
        rank_of(root, comm));
  });
}
#endif

#ifndef CCLMARK_FAKE_BARE
FAKE_API int onecclAllToAll(const void* send, void* receive, size_t count, int dtype, void* comm,
                            void* stream) {
  return told([&] { run(comm, stream, Kind::alltoall, send, receive, count, dtype_of(dtype)); });
}
#endif

#ifdef CCLMARK_FAKE_RECENT
FAKE_API int onecclAllToAllV(const void* send, const size_t* send_counts, void* receive,
                             const size_t* receive_counts, int dtype, void* comm, void* stream) {
  return told([&] {
    require(send_counts != nullptr && receive_counts != nullptr, fake_nccl::kInvalidArgument,
            "no counts");
    std::shared_ptr<fake_nccl::Communicator> group = fake_nccl::communicator_behind(comm);
    size_t width = fake_nccl::size_bytes(dtype_of(dtype));
    auto from = static_cast<const std::byte*>(send);
    auto to = static_cast<std::byte*>(receive);
    together([&] {
      for (int i = 0; i < group->ranks(); ++i) {
        int peer = misreads("parts") ? (i + 1) % group->ranks() : i;
        submit(comm, stream, Kind::send, from, nullptr, send_counts[i], dtype_of(dtype),
               Reduction::sum, peer);
        submit(comm, stream, Kind::receive, nullptr, to, receive_counts[i], dtype_of(dtype),
               Reduction::sum, i);
        from += send_counts[i] * width;
        to += receive_counts[i] * width;
      }
    });
    fake_nccl::Result state = group->async_error();
    if (state != fake_nccl::kSuccess) throw Failure{state, fake_nccl::last_error()};
  });
}
#endif

FAKE_API int onecclSend(const void* send, size_t count, int dtype, int peer, void* comm,
                        void* stream) {
  return told([&] {
    run(comm, stream, Kind::send, send, nullptr, count, dtype_of(dtype), Reduction::sum,
        rank_of(peer, comm));
  });
}

#ifndef CCLMARK_FAKE_BARE
FAKE_API int onecclRecv(void* receive, size_t count, int dtype, int peer, void* comm,
                        void* stream) {
  return told([&] {
    run(comm, stream, Kind::receive, nullptr, receive, count, dtype_of(dtype), Reduction::sum,
        rank_of(peer, comm));
  });
}
#endif

}  // namespace fake_shaped
