// The operations. Numbers from the caller become those of the core here, which checks the rest.

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "common/environment.hpp"
#include "common/export.hpp"
#include "hccl/communicator.hpp"
#include "nccl/enqueue.hpp"
#include "nccl/group.hpp"
#include "nccl/last_error.hpp"

namespace fake_hccl {
namespace {

using fake_nccl::Dtype;
using fake_nccl::Kind;
using fake_nccl::Operation;
using fake_nccl::Reduction;

constexpr int kReductions = 4;

Dtype dtype_of(int value) {
  if (misreads("dtype")) return static_cast<Dtype>(value);
  constexpr std::array<Dtype, kDtypeCount> kDtypes = {
      Dtype::int8,   Dtype::int16, Dtype::int32,  Dtype::float16, Dtype::float32, Dtype::int64,
      Dtype::uint64, Dtype::uint8, Dtype::uint16, Dtype::uint32,  Dtype::float64, Dtype::bfloat16};
  require(value >= 0 && value < kDtypeCount, "the data type is none", kNotSupported);
  return kDtypes[static_cast<size_t>(value)];
}

std::string_view device_name() {
  void* entry = fake_nccl::Runtime::instance().find("aclrtGetSocName");
  return reinterpret_cast<const char* (*)()>(entry)();
}

/// The first Atlas training series reduces no int16, an Atlas 300I Duo adds it up only.
bool reduces_int16(int reduction) {
  if (device_name().starts_with("Ascend310P")) return reduction == 0;
  return device_name().starts_with("Ascend910B") || device_name().starts_with("Ascend910_93") ||
         device_name().starts_with("Ascend950");
}

/// What HCCL documents of its reductions.
Reduction reduction_of(int value, int dtype) {
  require(value >= 0 && value < kReductions, "the reduction is none");
  Dtype type = dtype_of(dtype);
  bool wide = type == Dtype::uint64 || type == Dtype::float64;
  bool reduced = type != Dtype::uint8 && type != Dtype::uint16 && type != Dtype::uint32 &&
                 (type != Dtype::int16 || reduces_int16(value)) &&
                 (!wide || device_name().starts_with("Ascend950"));
  bool has_product = type != Dtype::bfloat16 && type != Dtype::int16;
  auto reduction = static_cast<Reduction>(misreads("op") ? (value + 1) % kReductions : value);
  require(reduced && (value != 1 || has_product), "this reduction does not take the data type",
          kNotSupported);
  return reduction;
}

int root_of(uint32_t root, const HcclCommunicator& member) {
  auto ranks = static_cast<uint32_t>(member.communicator->ranks());
  require(root < ranks, "the root or peer is not a rank of the communicator");
  return static_cast<int>(misreads("root") ? (root + 1) % ranks : root);
}

/// What a message takes longer because HCCL cuts it into pieces of HCCL_BUFFSIZE, of which each
/// takes CCLMARK_FAKE_HCCL_PIECE_US.
std::chrono::microseconds time_of_pieces(uint64_t bytes) {
  constexpr int kDefaultMb = 200;
  auto buffer_mb = fake_common::environment_number("HCCL_BUFFSIZE", kDefaultMb, 1);
  auto piece_us = fake_common::environment_number("CCLMARK_FAKE_HCCL_PIECE_US", 0, 0);
  uint64_t buffer_bytes = static_cast<uint64_t>(buffer_mb) << 20;
  auto pieces = static_cast<int64_t>((bytes + buffer_bytes - 1) / buffer_bytes);
  return std::chrono::microseconds(piece_us * pieces);
}

/// The lines that HCCL_DEBUG_CONFIG=ALG adds to the run log, which ASCEND_SLOG_PRINT_TO_STDOUT=1
/// sends to standard output.
void log_algorithm(const HcclCommunicator& member, Kind kind) {
  if (!fake_common::environment_is("HCCL_DEBUG_CONFIG", "ALG") ||
      !fake_common::environment_is("ASCEND_SLOG_PRINT_TO_STDOUT", "1") ||
      kind != Kind::all_reduce) {
    return;
  }
  int pid = getpid(), rank = member.communicator->rank(), ranks = member.communicator->ranks();
  const char* head = "[INFO] HCCL(%d,python):2026-01-06-15:38:29.882.077 [op_common.cc:%d] [%d] ";
  std::printf(head, pid, 53, pid);
  std::printf("[HCCL_ALG]: [InitRankInfo] userRank[%d] userRankSize[%d] serverNum[1]\n", rank,
              ranks);
  std::printf(head, pid, 102, pid);
  std::printf(
      "[HCCL_ALG]: [SelectAlg] algTag[AllReduce_127.10.0.1%%eth1_30000_0_host] "
      "algName[AllReduceMeshExecutor] userRank[%d] "
      "algType[level0:fullmesh,level1:ring,level2:null] "
      "userRankSize[%d] level0Size[%d] moduleNum[1] level2Size[1] opExpansionMode[HOST] "
      "isZeroCopy[0] isOpBase[1].\n",
      rank, ranks, ranks);
}

/// A call on a communicator's stream, as all operations start.
class Entry {
 public:
  Entry(void* comm, void* stream)
      : comm_(comm), stream_(stream), member(hccl_communicator_behind(comm)) {
    require_pointer(stream, "the stream");
  }

  void submit(Kind kind, const void* send, void* receive, uint64_t count, int dtype,
              Reduction reduction = Reduction::sum, int root = 0) const {
    Operation operation;
    operation.kind = kind;
    operation.send = static_cast<const std::byte*>(send);
    operation.receive = static_cast<std::byte*>(receive);
    operation.count = count;
    operation.dtype = dtype_of(dtype);
    operation.reduction = reduction;
    operation.root = root;
    operation.delay = time_of_pieces(count * fake_nccl::size_bytes(operation.dtype));
    log_algorithm(member, kind);
    int result = fake_nccl::enqueue(comm_, stream_, operation);
    if (result != fake_nccl::kSuccess) throw Failure{code_of(result), fake_nccl::last_error()};
  }

 private:
  void* comm_;
  void* stream_;

 public:
  const HcclCommunicator member;
};

/// Sends and receives that do not wait for each other.
template <typename Body>
void together(Body body) {
  fake_nccl::start_group();
  try {
    body();
  } catch (const Failure&) {
    fake_nccl::spoil_group({fake_nccl::kInvalidArgument, "an item is wrong"});
    try {
      fake_nccl::end_group();
    } catch (const fake_nccl::Failure&) {
    }
    throw;
  }
  fake_nccl::end_group();
}

std::byte* at(const void* base, uint64_t element, int dtype) {
  auto bytes = static_cast<std::byte*>(const_cast<void*>(base));
  return bytes + element * fake_nccl::size_bytes(dtype_of(dtype));
}

}  // namespace

FAKE_API int HcclAllReduce(void* send, void* receive, uint64_t count, int dtype, int op, void* comm,
                           void* stream) {
  return guarded([&] {
    Entry(comm, stream)
        .submit(Kind::all_reduce, send, receive, count, dtype, reduction_of(op, dtype));
  });
}

FAKE_API int HcclAllGather(void* send, void* receive, uint64_t count, int dtype, void* comm,
                           void* stream) {
  return guarded(
      [&] { Entry(comm, stream).submit(Kind::all_gather, send, receive, count, dtype); });
}

#ifndef CCLMARK_FAKE_BARE
FAKE_API int HcclReduceScatter(void* send, void* receive, uint64_t count, int dtype, int op,
                               void* comm, void* stream) {
  return guarded([&] {
    Entry(comm, stream)
        .submit(Kind::reduce_scatter, send, receive, count, dtype, reduction_of(op, dtype));
  });
}
#endif

FAKE_API int HcclBroadcast(void* memory, uint64_t count, int dtype, uint32_t root, void* comm,
                           void* stream) {
  return guarded([&] {
    Entry entry(comm, stream);
    entry.submit(Kind::broadcast, memory, memory, count, dtype, Reduction::sum,
                 root_of(root, entry.member));
  });
}

FAKE_API int HcclSend(void* memory, uint64_t count, int dtype, uint32_t peer, void* comm,
                      void* stream) {
  return guarded([&] {
    Entry entry(comm, stream);
    int to = root_of(peer, entry.member);
    require(to != entry.member.communicator->rank(), "a rank sends nothing to itself");
    entry.submit(Kind::send, memory, nullptr, count, dtype, Reduction::sum, to);
  });
}

#ifndef CCLMARK_FAKE_BARE
FAKE_API int HcclRecv(void* memory, uint64_t count, int dtype, uint32_t peer, void* comm,
                      void* stream) {
  return guarded([&] {
    Entry entry(comm, stream);
    int from = root_of(peer, entry.member);
    require(from != entry.member.communicator->rank(), "a rank receives nothing from itself");
    entry.submit(Kind::receive, nullptr, memory, count, dtype, Reduction::sum, from);
  });
}
#endif

FAKE_API int HcclAlltoAllV(const void* send, const uint64_t* send_counts,
                           const uint64_t* send_offsets, int send_type, const void* receive,
                           const uint64_t* receive_counts, const uint64_t* receive_offsets,
                           int receive_type, void* comm, void* stream) {
  return guarded([&] {
    Entry entry(comm, stream);
    require_pointer(send_counts, "sendCounts");
    require_pointer(send_offsets, "sdispls");
    require_pointer(receive_counts, "recvCounts");
    require_pointer(receive_offsets, "rdispls");
    require(send_type == receive_type, "sendType and recvType differ");
    if (misreads("displacements")) std::swap(send_counts, send_offsets);
    auto own = static_cast<size_t>(entry.member.communicator->rank());
    require(send_counts[own] == receive_counts[own], "a rank's part for itself has two sizes");
    together([&] {
      for (int peer = 0; peer < entry.member.communicator->ranks(); ++peer) {
        auto i = static_cast<size_t>(peer);
        entry.submit(Kind::send, at(send, send_offsets[i], send_type), nullptr, send_counts[i],
                     send_type, Reduction::sum, peer);
        entry.submit(Kind::receive, nullptr, at(receive, receive_offsets[i], receive_type),
                     receive_counts[i], receive_type, Reduction::sum, peer);
      }
    });
  });
}

#ifdef CCLMARK_FAKE_RECENT

FAKE_API int HcclAlltoAll(const void* send, uint64_t send_count, int send_type, const void* receive,
                          uint64_t receive_count, int receive_type, void* comm, void* stream) {
  return guarded([&] {
    require(send_count == receive_count && send_type == receive_type,
            "what is sent and what is received differ");
    Entry(comm, stream)
        .submit(Kind::alltoall, send, const_cast<void*>(receive), send_count, send_type);
  });
}

FAKE_API int HcclReduce(void* send, void* receive, uint64_t count, int dtype, int op, uint32_t root,
                        void* comm, void* stream) {
  return guarded([&] {
    Entry entry(comm, stream);
    entry.submit(Kind::reduce, send, receive, count, dtype, reduction_of(op, dtype),
                 root_of(root, entry.member));
  });
}

FAKE_API int HcclScatter(void* send, void* receive, uint64_t count, int dtype, uint32_t root,
                         void* comm, void* stream) {
  return guarded([&] {
    Entry entry(comm, stream);
    entry.submit(Kind::scatter, send, receive, count, dtype, Reduction::sum,
                 root_of(root, entry.member));
  });
}

FAKE_API int HcclBatchSendRecv(Item* items, uint32_t count, void* comm, void* stream) {
  return guarded([&] {
    Entry entry(comm, stream);
    require_pointer(items, "the list of items");
    require(count > 0, "there are no items");
    // A rank's own sends and receives have to pair up, in order.
    std::vector<uint64_t> own[2];
    for (const Item& item : std::vector<Item>(items, items + count)) {
      require(item.type == 0 || item.type == 1, "an item neither sends nor receives");
      bool to_itself = static_cast<int>(item.peer) == entry.member.communicator->rank();
      if (to_itself) own[item.type].push_back(item.count);
    }
    require(own[0] == own[1], "sends and receives of a rank to itself do not match");
    together([&] {
      for (const Item& item : std::vector<Item>(items, items + count)) {
        bool sends = (item.type == 0) != misreads("direction");
        entry.submit(sends ? Kind::send : Kind::receive, sends ? item.memory : nullptr,
                     sends ? nullptr : item.memory, item.count, item.dtype, Reduction::sum,
                     root_of(item.peer, entry.member));
      }
    });
  });
}

FAKE_API int HcclBarrier(void* comm, void* stream) {
  return guarded([&] {
    constexpr int kFloat32 = 4;
    Entry entry(comm, stream);
    entry.submit(Kind::all_reduce, entry.member.word, entry.member.word, 1,
                 misreads("dtype") ? 7 : kFloat32);
  });
}

#endif

}  // namespace fake_hccl
