// Cambricon's CNCL 1.25, with the numbers and orders of its header.

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
  kFine = 0x0,
  kInternal = 0x01,
  kUnsupported = 0x11,
  kNullPointer = 0x21,
  kSystem = 0x02,
  kRuntime = 0x03,
  kAsyncInProgress = 0x06,
  kAsyncError = 0x16,
  kArguments = 0x07,
};

constexpr int kReductions = 4;

using CliqueId = WholeId<136>;
static_assert(sizeof(CliqueId) == 136);

int code_of(int result) {
  switch (result) {
    case fake_nccl::kSuccess:
      return kFine;
    case fake_nccl::kInvalidArgument:
    case fake_nccl::kInvalidUsage:
      return kArguments;
    case fake_nccl::kSystemError:
      return kSystem;
    case fake_nccl::kUnhandledCudaError:
      return kRuntime;
    case fake_nccl::kRemoteError:
      return kAsyncError;
    default:
      return kInternal;
  }
}

template <typename Body>
int told(Body body) noexcept {
  return fake_shaped::told("CNCL", code_of, body);
}

void require_pointer(const void* pointer, const char* text) {
  if (pointer == nullptr) throw Refusal{kNullPointer, text};
}

Dtype dtype_of(int value) {
  switch (misreads("dtype") ? value ^ 1 : value) {
    case 0x10:
      return Dtype::float16;
    case 0x11:
      return Dtype::bfloat16;
    case 0x12:
      return Dtype::float32;
    case 0x20:
      return Dtype::int8;
    case 0x21:
      return Dtype::int16;
    case 0x22:
      return Dtype::int32;
    case 0x23:
      return Dtype::int64;
    case 0x30:
      return Dtype::uint8;
    case 0x31:
      return Dtype::uint16;
    case 0x32:
      return Dtype::uint32;
    case 0x33:
      return Dtype::uint64;
    default:
      throw Refusal{kUnsupported, "the data type is none that is communicated"};
  }
}

Reduction known_reduction(int value) {
  if (value < 0 || value >= kReductions) throw Refusal{kUnsupported, "the reduction is none"};
  return reduction_of(value, kReductions);
}

void require_queue(const void* queue) {
  require_pointer(queue, "the queue is null");
}

}  // namespace

FAKE_API const char* cnclGetErrorStr(int code) {
  switch (code) {
    case kFine:
      return "CNCL: success";
    case kUnsupported:
      return "CNCL: unsupported operation";
    case kNullPointer:
      return "CNCL: null pointer argument";
    case kSystem:
      return "CNCL: system error";
    case kRuntime:
      return "CNCL: CNRT API error";
    case kAsyncInProgress:
      return "CNCL: asynchronous operations have not completed";
    case kAsyncError:
      return "CNCL: asynchronous error";
    case kArguments:
      return "CNCL: illegal arguments";
    default:
      return "CNCL: internal error";
  }
}

FAKE_API int cnclGetLibVersion(int* major, int* minor, int* patch) {
  return told([&] {
    require_pointer(major, "no place for the major version");
    require_pointer(minor, "no place for the minor version");
    require_pointer(patch, "no place for the patch version");
    *major = 1;
    *minor = 25;
    *patch = 0;
  });
}

FAKE_API int cnclGetCliqueId(CliqueId* id) {
  return told([&] {
    require_pointer(id, "no place for the clique id");
    *id = CliqueId::of(fake_nccl::create_control());
  });
}

FAKE_API int cnclInitComms(void** comms, int count, const int* devices, const int* list, int ranks,
                           const CliqueId* id) {
  return told([&] {
    require_pointer(comms, "no place for the communicators");
    require_pointer(devices, "no list of devices");
    require_pointer(list, "no list of ranks");
    require_pointer(id, "the fake has one process for each rank: it needs a clique id");
    require(count == 1, fake_nccl::kInvalidArgument, "the fake makes one communicator a call");
    require(devices[0] == fake_nccl::Runtime::instance().current_device(),
            fake_nccl::kInvalidArgument, "the device in the list is not the current one");
    id->require_whole();
    fake_nccl::fail_if_asked(list[0], "InitComms");
    comms[0] = fake_nccl::communicators().add(
        std::make_shared<fake_nccl::Communicator>(id->control, ranks, list[0]));
  });
}

FAKE_API int cnclDestroyComms(void** comms, int count) {
  return told([&] {
    require_pointer(comms, "no communicators");
    require(count == 1, fake_nccl::kInvalidArgument, "the fake ends one communicator a call");
    std::shared_ptr<fake_nccl::Communicator> comm = fake_nccl::communicator_behind(comms[0]);
    fake_nccl::communicators().take(comms[0]);
    comm->destroy();
  });
}

FAKE_API int cnclGetCommAsyncError(void* comm) {
  int state = fake_nccl::kSuccess;
  int code = told([&] { state = fake_nccl::communicator_behind(comm)->async_error(); });
  return code != kFine ? code : state == fake_nccl::kSuccess ? kFine : kAsyncError;
}

FAKE_API int cnclGroupStart() {
  return told([] { fake_nccl::start_group(); });
}

FAKE_API int cnclGroupEnd() {
  return told([] { fake_nccl::end_group(); });
}

FAKE_API int cnclAllReduce(const void* send, void* receive, size_t count, int dtype, int op,
                           void* comm, void* queue) {
  return told([&] {
    require_queue(queue);
    submit(comm, queue, Kind::all_reduce, send, receive, count, dtype_of(dtype),
           known_reduction(op));
  });
}

FAKE_API int cnclReduceScatter(const void* send, void* receive, size_t count, int dtype, int op,
                               void* comm, void* queue) {
  return told([&] {
    require_queue(queue);
    submit(comm, queue, Kind::reduce_scatter, send, receive, count, dtype_of(dtype),
           known_reduction(op));
  });
}

FAKE_API int cnclReduce(const void* send, void* receive, size_t count, int dtype, int op, int root,
                        void* comm, void* queue) {
  return told([&] {
    require_queue(queue);
    submit(comm, queue, Kind::reduce, send, receive, count, dtype_of(dtype), known_reduction(op),
           rank_of(root, comm));
  });
}

FAKE_API int cnclAllGather(const void* send, void* receive, size_t count, int dtype, void* comm,
                           void* queue) {
  return told([&] {
    require_queue(queue);
    submit(comm, queue, Kind::all_gather, send, receive, count, dtype_of(dtype));
  });
}

FAKE_API int cnclBroadcast(const void* send, void* receive, size_t count, int dtype, int root,
                           void* comm, void* queue) {
  return told([&] {
    require_queue(queue);
    submit(comm, queue, Kind::broadcast, send, receive, count, dtype_of(dtype), Reduction::sum,
           rank_of(root, comm));
  });
}

FAKE_API int cnclSend(void* send, size_t count, int dtype, int peer, void* comm, void* queue) {
  return told([&] {
    require_queue(queue);
    submit(comm, queue, Kind::send, send, nullptr, count, dtype_of(dtype), Reduction::sum,
           rank_of(peer, comm));
  });
}

FAKE_API int cnclRecv(void* receive, size_t count, int dtype, int peer, void* comm, void* queue) {
  return told([&] {
    require_queue(queue);
    submit(comm, queue, Kind::receive, nullptr, receive, count, dtype_of(dtype), Reduction::sum,
           rank_of(peer, comm));
  });
}

#ifdef CCLMARK_FAKE_RECENT

FAKE_API int cnclAlltoAll(const void* send, void* receive, size_t count, int dtype, void* comm,
                          void* queue) {
  return told([&] {
    require_queue(queue);
    require(send != receive, fake_nccl::kInvalidArgument, "the fake exchanges nothing in place");
    submit(comm, queue, Kind::alltoall, send, receive, count, dtype_of(dtype));
  });
}

FAKE_API int cnclAlltoAllv(const void** sends, const uint32_t* send_counts, const int* send_types,
                           void** receives, const uint32_t* receive_counts,
                           const int* receive_types, void* comm, void* queue) {
  return told([&] {
    require_queue(queue);
    require_pointer(sends, "no addresses to send from");
    require_pointer(send_counts, "no counts to send");
    require_pointer(send_types, "no types to send");
    require_pointer(receives, "no addresses to receive to");
    require_pointer(receive_counts, "no counts to receive");
    require_pointer(receive_types, "no types to receive");
    int ranks = fake_nccl::communicator_behind(comm)->ranks();
    together([&] {
      for (int peer = 0; peer < ranks; ++peer) {
        submit(comm, queue, Kind::send, sends[peer], nullptr, send_counts[peer],
               dtype_of(send_types[peer]), Reduction::sum, peer);
        submit(comm, queue, Kind::receive, nullptr, receives[misreads("parts") ? 0 : peer],
               receive_counts[peer], dtype_of(receive_types[peer]), Reduction::sum, peer);
      }
    });
  });
}

#endif

}  // namespace fake_shaped
