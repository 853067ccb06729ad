// Kunlunxin's XCCL, as it is assumed to be: the order of arguments is that of programs that call
// it, the numbers are the engine's. This fake shows that the path works, not that the assumptions
// hold.

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

/// Of more bytes than NCCL's, which are all that a caller may not lose.
using BkclId = WholeId<1024>;

int code_of(int result) {
  return result;
}

template <typename Body>
int told(Body body) noexcept {
  return fake_shaped::told("BKCL", code_of, body);
}

Dtype dtype_of(int value) {
  constexpr std::array<Dtype, 7> kDtypes = {Dtype::uint8,   Dtype::int32,   Dtype::int64,
                                            Dtype::float16, Dtype::float32, Dtype::float64,
                                            Dtype::bfloat16};
  require(value >= 0 && value < static_cast<int>(kDtypes.size()), fake_nccl::kInvalidArgument,
          "the data type is none");
  // float32 and int32 are of one size: only the data tell.
  if (misreads("dtype") && value == 4) return Dtype::int32;
  return kDtypes[static_cast<size_t>(value)];
}

Reduction known_reduction(int value) {
  constexpr std::array<Reduction, 4> kReductions = {Reduction::sum, Reduction::prod, Reduction::min,
                                                    Reduction::max};
  require(value >= 0 && value < static_cast<int>(kReductions.size()), fake_nccl::kInvalidArgument,
          "the reduction is none");
  int known = static_cast<int>(kReductions[static_cast<size_t>(value)]);
  return reduction_of(known, static_cast<int>(kReductions.size()));
}

/// What the library reads lies in memory of the device, which the fake has in the file behind it.
const size_t* on_device(const size_t* table, int ranks) {
  require(table != nullptr, fake_nccl::kInvalidArgument, "no counts or no offsets");
  fake_nccl::Runtime::instance().locate(table, static_cast<size_t>(ranks) * sizeof(size_t));
  return table;
}

}  // namespace

FAKE_API int bkcl_get_unique_id(BkclId* id) {
  return told([&] {
    require(id != nullptr, fake_nccl::kInvalidArgument, "no place for the id");
    *id = BkclId::of(fake_nccl::create_control());
  });
}

FAKE_API int bkcl_init_rank(void** comm, int rank, int ranks, const BkclId* id) {
  return told([&] {
    require(comm != nullptr && id != nullptr, fake_nccl::kInvalidArgument,
            "no place for the communicator, or no id");
    id->require_whole();
    fake_nccl::fail_if_asked(rank, "Init");
    *comm = fake_nccl::communicators().add(
        std::make_shared<fake_nccl::Communicator>(id->control, ranks, rank));
  });
}

FAKE_API int bkcl_destroy_context(void* comm) {
  return told([&] {
    std::shared_ptr<fake_nccl::Communicator> ended = fake_nccl::communicator_behind(comm);
    fake_nccl::communicators().take(comm);
    ended->destroy();
  });
}

FAKE_API int bkcl_group_start() {
  return told([] { fake_nccl::start_group(); });
}

FAKE_API int bkcl_group_end() {
  return told([] { fake_nccl::end_group(); });
}

FAKE_API int bkcl_all_reduce(void* comm, const void* send, void* receive, size_t count, int dtype,
                             int op, void* stream) {
  return told([&] {
    submit(comm, stream, Kind::all_reduce, send, receive, count, dtype_of(dtype),
           known_reduction(op));
  });
}

FAKE_API int bkcl_reduce_scatter(void* comm, const void* send, void* receive, size_t count,
                                 int dtype, int op, void* stream) {
  return told([&] {
    submit(comm, stream, Kind::reduce_scatter, send, receive, count, dtype_of(dtype),
           known_reduction(op));
  });
}

FAKE_API int bkcl_reduce(void* comm, const void* send, void* receive, size_t count, int dtype,
                         int op, int root, void* stream) {
  return told([&] {
    submit(comm, stream, Kind::reduce, send, receive, count, dtype_of(dtype), known_reduction(op),
           rank_of(root, comm));
  });
}

FAKE_API int bkcl_all_gather(void* comm, const void* send, size_t count, void* receive, int dtype,
                             void* stream) {
  return told(
      [&] { submit(comm, stream, Kind::all_gather, send, receive, count, dtype_of(dtype)); });
}

FAKE_API int bkcl_broadcast(void* comm, const void* send, void* receive, size_t count, int dtype,
                            int root, void* stream) {
  return told([&] {
    submit(comm, stream, Kind::broadcast, send, receive, count, dtype_of(dtype), Reduction::sum,
           rank_of(root, comm));
  });
}

FAKE_API int bkcl_send(void* comm, const void* send, size_t count, int peer, int dtype,
                       void* stream) {
  return told([&] {
    submit(comm, stream, Kind::send, send, nullptr, count, dtype_of(dtype), Reduction::sum,
           rank_of(peer, comm));
  });
}

FAKE_API int bkcl_recv(void* comm, void* receive, size_t count, int peer, int dtype, void* stream) {
  return told([&] {
    submit(comm, stream, Kind::receive, nullptr, receive, count, dtype_of(dtype), Reduction::sum,
           rank_of(peer, comm));
  });
}

FAKE_API int bkcl_all_to_all(void* comm, const void* send, size_t count, void* receive, int dtype,
                             void* stream) {
  return told([&] { submit(comm, stream, Kind::alltoall, send, receive, count, dtype_of(dtype)); });
}

FAKE_API int bkcl_all_to_all_v(void* comm, const void* send, const size_t* send_counts,
                               const size_t* send_offsets, int send_dtype, void* receive,
                               const size_t* receive_counts, const size_t* receive_offsets,
                               int receive_dtype, void* stream) {
  return told([&] {
    int ranks = fake_nccl::communicator_behind(comm)->ranks();
    const size_t* sent = on_device(send_counts, ranks);
    const size_t* from = on_device(send_offsets, ranks);
    const size_t* got = on_device(receive_counts, ranks);
    const size_t* to = on_device(misreads("parts") ? send_offsets : receive_offsets, ranks);
    require(send_dtype == receive_dtype, fake_nccl::kInvalidArgument, "the data types differ");
    Dtype dtype = dtype_of(send_dtype);
    size_t width = fake_nccl::size_bytes(dtype);
    together([&] {
      for (int peer = 0; peer < ranks; ++peer) {
        submit(comm, stream, Kind::send, static_cast<const std::byte*>(send) + from[peer] * width,
               nullptr, sent[peer], dtype, Reduction::sum, peer);
        submit(comm, stream, Kind::receive, nullptr,
               static_cast<std::byte*>(receive) + to[peer] * width, got[peer], dtype,
               Reduction::sum, peer);
      }
    });
  });
}

}  // namespace fake_shaped
