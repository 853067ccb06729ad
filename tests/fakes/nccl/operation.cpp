#include "nccl/operation.hpp"

#include <cstdint>
#include <limits>

namespace fake_nccl {
namespace {

constexpr int kFp8Version = 22400;
constexpr int kFp8Architecture = 90;

void check_pointer(const void* memory, size_t width, const char* which) {
  if (memory != nullptr && reinterpret_cast<uintptr_t>(memory) % width == 0) return;
  throw Failure{kInvalidArgument,
                std::string(which) +
                    (memory == nullptr ? " is a null pointer" : " is not aligned to its elements")};
}

}  // namespace

const char* name(Kind kind) {
  constexpr const char* kNames[] = {"AllReduce", "AllGather", "ReduceScatter", "Broadcast",
                                    "Reduce",    "AlltoAll",  "Gather",        "Scatter",
                                    "Send",      "Recv"};
  return kNames[static_cast<int>(kind)];
}

bool reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce_scatter || kind == Kind::reduce;
}

size_t Operation::send_count(int rank, int ranks) const {
  auto n = static_cast<size_t>(ranks);
  switch (kind) {
    case Kind::all_reduce:
    case Kind::all_gather:
    case Kind::reduce:
    case Kind::gather:
    case Kind::send:
      return count;
    case Kind::reduce_scatter:
    case Kind::alltoall:
      return count * n;
    case Kind::broadcast:
      return rank == root ? count : 0;
    case Kind::scatter:
      return rank == root ? count * n : 0;
    case Kind::receive:
      return 0;
  }
  return 0;
}

size_t Operation::receive_count(int rank, int ranks) const {
  auto n = static_cast<size_t>(ranks);
  switch (kind) {
    case Kind::all_reduce:
    case Kind::reduce_scatter:
    case Kind::broadcast:
    case Kind::scatter:
    case Kind::receive:
      return count;
    case Kind::all_gather:
    case Kind::alltoall:
      return count * n;
    case Kind::reduce:
      return rank == root ? count : 0;
    case Kind::gather:
      return rank == root ? count * n : 0;
    case Kind::send:
      return 0;
  }
  return 0;
}

void prepare(Operation& operation, int rank, int ranks, int architecture) {
  auto dtype = static_cast<int>(operation.dtype);
  bool is_known = dtype >= 0 && dtype < static_cast<int>(kDtypeBytes.size()) &&
                  (version() >= kFp8Version || !is_fp8(operation.dtype));
  require(is_known, kInvalidArgument, "the data type is not one");
  auto reduction = static_cast<int>(operation.reduction);
  require(reduction >= 0 && reduction < kReductionCount, kInvalidArgument,
          "the reduction is not one");
  require(operation.root >= 0 && operation.root < ranks, kInvalidArgument,
          "the root or peer is not a rank of the communicator");
  require(!reduces(operation.kind) || !is_fp8(operation.dtype) || architecture >= kFp8Architecture,
          kInvalidArgument, "FP8 reduction support begins with sm90 capable devices");
  // The kernel that NCCL uses for one rank scales no 8-bit floats.
  require(ranks > 1 || !is_fp8(operation.dtype) || !reduces(operation.kind) ||
              operation.reduction != Reduction::avg,
          kInvalidArgument, "one rank does not scale 8-bit floats");
  size_t width = size_bytes(operation.dtype);
  size_t most = std::numeric_limits<size_t>::max() / (width * static_cast<size_t>(ranks));
  require(operation.count <= most, kInvalidArgument, "the count is beyond all memory");

  if (size_t count = operation.send_count(rank, ranks); count > 0) {
    check_pointer(operation.send, width, "the send buffer");
    operation.send_place = Runtime::instance().locate(operation.send, count * width);
  }
  if (size_t count = operation.receive_count(rank, ranks); count > 0) {
    check_pointer(operation.receive, width, "the receive buffer");
    operation.receive_place = Runtime::instance().locate(operation.receive, count * width);
  }
}

}  // namespace fake_nccl
