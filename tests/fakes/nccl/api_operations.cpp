// The operations that every version has. Numbers from the caller become enumerators here and are
// checked by prepare().

#include "common/environment.hpp"
#include "common/export.hpp"
#include "nccl/enqueue.hpp"

namespace fake_nccl {
namespace {

/// By how much this library's numbers are others than its callers think, as if a table were wrong.
int shift(const char* setting) {
  return static_cast<int>(fake_common::environment_number(setting, 0, 0));
}

Operation make(Kind kind, const void* send, void* receive, size_t count, int dtype) {
  Operation operation;
  operation.kind = kind;
  operation.send = static_cast<const std::byte*>(send);
  operation.receive = static_cast<std::byte*>(receive);
  operation.count = count;
  operation.dtype = dtype_of(dtype + shift("CCLMARK_FAKE_SHIFT_DTYPES"));
  return operation;
}

Operation make_reduction(Kind kind, const void* send, void* receive, size_t count, int dtype,
                         int reduction, int root) {
  Operation operation = make(kind, send, receive, count, dtype);
  operation.reduction = static_cast<Reduction>(reduction + shift("CCLMARK_FAKE_SHIFT_REDUCTIONS"));
  operation.root = root;
  return operation;
}

Operation make_rooted(Kind kind, const void* send, void* receive, size_t count, int dtype,
                      int root) {
  Operation operation = make(kind, send, receive, count, dtype);
  operation.root = root;
  return operation;
}

}  // namespace

FAKE_API int ncclAllReduce(const void* send, void* receive, size_t count, int dtype, int reduction,
                           void* comm, void* stream) {
  return enqueue(comm, stream,
                 make_reduction(Kind::all_reduce, send, receive, count, dtype, reduction, 0));
}

FAKE_API int ncclReduceScatter(const void* send, void* receive, size_t count, int dtype,
                               int reduction, void* comm, void* stream) {
  return enqueue(comm, stream,
                 make_reduction(Kind::reduce_scatter, send, receive, count, dtype, reduction, 0));
}

FAKE_API int ncclReduce(const void* send, void* receive, size_t count, int dtype, int reduction,
                        int root, void* comm, void* stream) {
  return enqueue(comm, stream,
                 make_reduction(Kind::reduce, send, receive, count, dtype, reduction, root));
}

FAKE_API int ncclAllGather(const void* send, void* receive, size_t count, int dtype, void* comm,
                           void* stream) {
  return enqueue(comm, stream, make(Kind::all_gather, send, receive, count, dtype));
}

FAKE_API int ncclBroadcast(const void* send, void* receive, size_t count, int dtype, int root,
                           void* comm, void* stream) {
  return enqueue(comm, stream, make_rooted(Kind::broadcast, send, receive, count, dtype, root));
}

FAKE_API int ncclSend(const void* send, size_t count, int dtype, int peer, void* comm,
                      void* stream) {
  return enqueue(comm, stream, make_rooted(Kind::send, send, nullptr, count, dtype, peer));
}

FAKE_API int ncclRecv(void* receive, size_t count, int dtype, int peer, void* comm, void* stream) {
  return enqueue(comm, stream, make_rooted(Kind::receive, nullptr, receive, count, dtype, peer));
}

#ifdef CCLMARK_FAKE_RECENT

FAKE_API int ncclAlltoAll(const void* send, void* receive, size_t count, int dtype, void* comm,
                          void* stream) {
  return enqueue(comm, stream, make(Kind::alltoall, send, receive, count, dtype));
}

FAKE_API int ncclGather(const void* send, void* receive, size_t count, int dtype, int root,
                        void* comm, void* stream) {
  return enqueue(comm, stream, make_rooted(Kind::gather, send, receive, count, dtype, root));
}

FAKE_API int ncclScatter(const void* send, void* receive, size_t count, int dtype, int root,
                         void* comm, void* stream) {
  return enqueue(comm, stream, make_rooted(Kind::scatter, send, receive, count, dtype, root));
}

#endif

}  // namespace fake_nccl
