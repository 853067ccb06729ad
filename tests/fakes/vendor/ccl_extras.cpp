// What vendors' libraries have beyond NCCL 2.18's interface, each under the names and with the
// arguments that it has: FAKE_CCL_LIKE_RCCL, FAKE_CCL_LIKE_ECCL.

#include "common/export.hpp"
#include "nccl/communicator.hpp"
#include "nccl/enqueue.hpp"
#include "nccl/group.hpp"
#include "nccl/last_error.hpp"
#include "vendor/names.hpp"

extern "C" {
int FAKE_CCL(Send)(const void*, size_t, int, int, void*, void*);
int FAKE_CCL(Recv)(void*, size_t, int, int, void*, void*);
int FAKE_CCL(GroupStart)();
int FAKE_CCL(GroupEnd)();
}

namespace fake_nccl {

#ifdef FAKE_CCL_MARK
FAKE_API int FAKE_CCL(FAKE_CCL_MARK)(void* handle, int* device) {
  return guarded([&] {
    communicator_behind(handle);
    require(device != nullptr, kInvalidArgument, "no place for the device");
    *device = Runtime::instance().current_device();
  });
}
#endif

namespace {

struct Parts {
  const size_t* counts;
  const size_t* offsets;
  int dtype;
};

/// Parts of different sizes, as one group of messages.
[[maybe_unused]] int exchange(const void* send, const Parts& sent, void* receive,
                              const Parts& received, void* comm, void* stream) {
  int ranks = 0;
  int status = guarded([&] {
    ranks = communicator_behind(comm)->ranks();
    for (const Parts& parts : {sent, received}) {
      require(parts.counts != nullptr && parts.offsets != nullptr, kInvalidArgument,
              "no counts or no offsets");
      bool known = static_cast<int>(dtype_of(parts.dtype)) >= 0;
      require(known && parts.dtype == sent.dtype, kInvalidArgument, "the data type is not one");
    }
  });
  if (status != kSuccess) return status;
  size_t width = size_bytes(static_cast<Dtype>(sent.dtype));
  FAKE_CCL(GroupStart)();
  for (int peer = 0; peer < ranks && status == kSuccess; ++peer) {
    auto from = static_cast<const std::byte*>(send) + sent.offsets[peer] * width;
    auto to = static_cast<std::byte*>(receive) + received.offsets[peer] * width;
    if (sent.counts[peer] > 0) {
      status = FAKE_CCL(Send)(from, sent.counts[peer], sent.dtype, peer, comm, stream);
    }
    if (received.counts[peer] > 0 && status == kSuccess) {
      status = FAKE_CCL(Recv)(to, received.counts[peer], received.dtype, peer, comm, stream);
    }
  }
  int ended = FAKE_CCL(GroupEnd)();
  return status != kSuccess ? status : ended;
}

[[maybe_unused]] int enqueue_rooted(Kind kind, const void* send, void* receive, size_t count,
                                    int dtype, int root, void* comm, void* stream) {
  Operation operation;
  operation.kind = kind;
  operation.send = static_cast<const std::byte*>(send);
  operation.receive = static_cast<std::byte*>(receive);
  operation.count = count;
  operation.dtype = dtype_of(dtype);
  operation.root = root;
  return enqueue(comm, stream, operation);
}

}  // namespace

#if defined(FAKE_CCL_LIKE_RCCL) || defined(FAKE_CCL_LIKE_ECCL)
FAKE_API int FAKE_CCL(Gather)(const void* send, void* receive, size_t count, int dtype, int root,
                              void* comm, void* stream) {
  return enqueue_rooted(Kind::gather, send, receive, count, dtype, root, comm, stream);
}

FAKE_API int FAKE_CCL(Scatter)(const void* send, void* receive, size_t count, int dtype, int root,
                               void* comm, void* stream) {
  return enqueue_rooted(Kind::scatter, send, receive, count, dtype, root, comm, stream);
}
#endif

#ifdef FAKE_CCL_LIKE_RCCL
#ifndef FAKE_CCL_ALLTOALL
#define FAKE_CCL_ALLTOALL AllToAll
#define FAKE_CCL_ALLTOALLV AllToAllv
#endif

FAKE_API int FAKE_CCL(FAKE_CCL_ALLTOALL)(const void* send, void* receive, size_t count, int dtype,
                                         void* comm, void* stream) {
  return enqueue_rooted(Kind::alltoall, send, receive, count, dtype, 0, comm, stream);
}

FAKE_API int FAKE_CCL(FAKE_CCL_ALLTOALLV)(const void* send, const size_t* send_counts,
                                          const size_t* send_offsets, void* receive,
                                          const size_t* receive_counts,
                                          const size_t* receive_offsets, int dtype, void* comm,
                                          void* stream) {
  return exchange(send, {send_counts, send_offsets, dtype}, receive,
                  {receive_counts, receive_offsets, dtype}, comm, stream);
}
#endif

#ifdef FAKE_CCL_LIKE_ECCL
FAKE_API int FAKE_CCL(Alltoall)(const void* send, size_t send_count, int send_dtype, void* receive,
                                size_t receive_count, int receive_dtype, void* comm, void* stream) {
  int status = guarded([&] {
    require(send_count == receive_count && send_dtype == receive_dtype, kInvalidArgument,
            "what is sent and what is received differ");
  });
  if (status != kSuccess) return status;
  return enqueue_rooted(Kind::alltoall, send, receive, send_count, send_dtype, 0, comm, stream);
}

FAKE_API int FAKE_CCL(AlltoAllv)(const void* send, const size_t* send_counts,
                                 const size_t* send_offsets, int send_dtype, void* receive,
                                 const size_t* receive_counts, const size_t* receive_offsets,
                                 int receive_dtype, void* comm, void* stream) {
  return exchange(send, {send_counts, send_offsets, send_dtype}, receive,
                  {receive_counts, receive_offsets, receive_dtype}, comm, stream);
}
#endif

}  // namespace fake_nccl
