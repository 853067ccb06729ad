// Collectives of the fake NCCL over three processes, against results worked out here.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "selftest/checks.hpp"
#include "selftest/elements.hpp"
#include "selftest/rank.hpp"

namespace selftest {
namespace {

constexpr int kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4;

constexpr int kRanks = 3;
constexpr size_t kCount = 7;

/// Element i of rank r. Of three ranks the sum is 3 × (i % 2 + 1), so that all are exact anywhere.
int input(int rank, size_t i) {
  return (rank + static_cast<int>(i)) % 3 + static_cast<int>(i % 2);
}

int reduced(int reduction, size_t i) {
  int x = input(0, i), y = input(1, i), z = input(2, i);
  switch (reduction) {
    case kSum:
      return x + y + z;
    case kProd:
      return x * y * z;
    case kMax:
      return std::max(x, std::max(y, z));
    case kMin:
      return std::min(x, std::min(y, z));
    default:
      return (x + y + z) / 3;
  }
}

std::vector<int> inputs(int rank, size_t first, size_t count) {
  std::vector<int> values;
  for (size_t i = first; i < first + count; ++i) values.push_back(input(rank, i));
  return values;
}

std::vector<int> reductions(int reduction, size_t first, size_t count) {
  std::vector<int> values;
  for (size_t i = first; i < first + count; ++i) values.push_back(reduced(reduction, i));
  return values;
}

std::vector<int> zeros(size_t count) {
  return std::vector<int>(count, 0);
}

void check_reductions(Rank& rank) {
  for (int dtype = 0; dtype < kDtypes; ++dtype) {
    Elements send(rank, dtype, inputs(rank.rank, 0, kCount * kRanks));
    Elements receive(rank, dtype, zeros(kCount * kRanks));
    bool whole = dtype < kFloat16;
    for (int op : {kSum, kProd, kMax, kMin, kAvg}) {
      // A third is not exact as a float: averages of floats have a check of their own.
      if (op == kAvg && !whole) continue;
      receive.set(zeros(kCount));
      rank("ncclAllReduce", send.from(0), receive.at(0), kCount, dtype, op);
      rank.gpu.wait();
      CHECK(receive.holds(reductions(op, 0, kCount)));

      int root = dtype % kRanks;
      receive.set(zeros(kCount));
      rank("ncclReduce", send.from(0), receive.at(0), kCount, dtype, op, root);
      rank.gpu.wait();
      CHECK(receive.holds(rank.rank == root ? reductions(op, 0, kCount) : zeros(kCount)));

      size_t part = kCount * static_cast<size_t>(rank.rank);
      receive.set(zeros(kCount));
      rank("ncclReduceScatter", send.from(0), receive.at(0), kCount, dtype, op);
      rank.gpu.wait();
      CHECK(receive.holds(reductions(op, part, kCount)));

      // In place, with the output where NCCL wants it.
      receive.set(inputs(rank.rank, 0, kCount * kRanks));
      rank("ncclReduceScatter", receive.from(0), receive.at(part), kCount, dtype, op);
      rank.gpu.wait();
      CHECK(receive.holds(reductions(op, part, kCount), part));
      receive.set(inputs(rank.rank, 0, kCount));
      rank("ncclAllReduce", receive.from(0), receive.at(0), kCount, dtype, op);
      rank.gpu.wait();
      CHECK(receive.holds(reductions(op, 0, kCount)));
    }
  }
}

/// Averages: of integers, the truncated quotient; of floats, with the rounded factor.
void check_averages(Rank& rank) {
  Elements integers(rank, kInt32, {-1 - rank.rank, 5});
  rank("ncclAllReduce", integers.from(0), integers.at(0), size_t{2}, int{kInt32}, kAvg);
  std::vector<float> floats = {3.0f * static_cast<float>(rank.rank), 1.5f};
  void* memory = rank.gpu.allocate(8);
  rank.gpu.write(memory, floats.data(), 8);
  rank("ncclAllReduce", static_cast<const void*>(memory), memory, size_t{2}, int{kFloat32}, kAvg);
  rank.gpu.wait();
  CHECK(integers.holds({-2, 5}));
  rank.gpu.read(floats.data(), memory, 8);
  float third = 1.0f / 3.0f;
  CHECK(floats[0] == 0.0f * third + 3.0f * third + 6.0f * third);
  CHECK(floats[1] == 1.5f * third + 1.5f * third + 1.5f * third);
}

void check_movements(Rank& rank) {
  auto part = [](int r) { return kCount * static_cast<size_t>(r); };
  size_t own = part(rank.rank);
  void* nothing = nullptr;
  for (Dtype type : {kUint8, kFloat16, kInt64}) {
    int dtype = type;
    Elements send(rank, dtype, inputs(rank.rank, 0, kCount * kRanks));
    Elements receive(rank, dtype, zeros(kCount * kRanks));
    std::vector<int> gathered, exchanged;
    for (int r = 0; r < kRanks; ++r) {
      for (int value : inputs(r, 0, kCount)) gathered.push_back(value);
      for (int value : inputs(r, own, kCount)) exchanged.push_back(value);
    }
    rank("ncclAllGather", send.from(0), receive.at(0), kCount, dtype);
    rank.gpu.wait();
    CHECK(receive.holds(gathered));
    std::vector<int> aside = zeros(kCount * kRanks);
    for (size_t i = 0; i < kCount; ++i) aside[own + i] = input(rank.rank, i);
    receive.set(aside);
    rank("ncclAllGather", receive.from(own), receive.at(0), kCount, dtype);
    rank.gpu.wait();
    CHECK(receive.holds(gathered));

    for (int root = 0; root < kRanks; ++root) {
      bool is_root = rank.rank == root;
      receive.set(zeros(kCount * kRanks));
      rank("ncclBroadcast", is_root ? send.from(2) : nothing, receive.at(0), kCount, dtype, root);
      rank.gpu.wait();
      CHECK(receive.holds(inputs(root, 2, kCount)));
      if (!rank.nccl.has("ncclGather")) continue;
      rank("ncclGather", send.from(0), is_root ? receive.at(0) : nothing, kCount, dtype, root);
      rank.gpu.wait();
      if (is_root) CHECK(receive.holds(gathered));
      rank("ncclScatter", is_root ? send.from(0) : nothing, receive.at(0), kCount, dtype, root);
      rank.gpu.wait();
      CHECK(receive.holds(inputs(root, own, kCount)));
    }
    if (!rank.nccl.has("ncclAlltoAll")) continue;
    rank("ncclAlltoAll", send.from(0), receive.at(0), kCount, dtype);
    rank.gpu.wait();
    CHECK(receive.holds(exchanged));
  }
}

/// NCCL has no in-place all-to-all; what comes out has to be wrong on some rank, each time.
void check_alltoall_in_place(Rank& rank) {
  std::vector<int> values = {rank.rank * 10, rank.rank * 10 + 1, rank.rank * 10 + 2};
  Elements buffer(rank, kInt32, values);
  rank("ncclAlltoAll", buffer.from(0), buffer.at(0), size_t{1}, int{kInt32});
  rank.gpu.wait();
  std::vector<int> right = {rank.rank, rank.rank + 10, rank.rank + 20};
  CHECK(buffer.holds(right) == (rank.rank == 0));
}

void check_exchange(Rank& rank) {
  int right = (rank.rank + 1) % kRanks, left = (rank.rank + 2) % kRanks;
  Elements send(rank, kInt32, {rank.rank, 10 + rank.rank, 20 + rank.rank});
  Elements receive(rank, kInt32, zeros(4));
  // Two messages to the right that match in order, one to itself, and a collective among them.
  Elements sum(rank, kInt32, {1});
  CHECK_EQUAL(rank.nccl("ncclGroupStart"), 0);
  CHECK_EQUAL(rank.nccl("ncclGroupStart"), 0);
  rank("ncclSend", send.from(0), size_t{1}, int{kInt32}, right);
  rank("ncclSend", send.from(1), size_t{2}, int{kInt32}, right);
  rank("ncclSend", send.from(0), size_t{1}, int{kInt32}, rank.rank);
  CHECK_EQUAL(rank.nccl("ncclGroupEnd"), 0);
  rank("ncclAllReduce", sum.from(0), sum.at(0), size_t{1}, int{kInt32}, kSum);
  rank("ncclRecv", receive.at(0), size_t{1}, int{kInt32}, left);
  rank("ncclRecv", receive.at(1), size_t{2}, int{kInt32}, left);
  rank("ncclRecv", receive.at(3), size_t{1}, int{kInt32}, rank.rank);
  rank.gpu.wait();
  CHECK(receive.holds(zeros(4)));
  CHECK_EQUAL(rank.nccl("ncclGroupEnd"), 0);
  rank.gpu.wait();
  CHECK(receive.holds({left, 10 + left, 20 + left, rank.rank}));
  CHECK(sum.holds({kRanks}));
  // Outside a group, down the line.
  if (rank.rank > 0) rank("ncclRecv", send.at(0), size_t{3}, int{kInt32}, left);
  if (rank.rank < kRanks - 1) rank("ncclSend", send.from(0), size_t{3}, int{kInt32}, right);
  rank.gpu.wait();
  CHECK(send.holds({0, 10, 20}));
}

void check_captured(Rank& rank) {
  Elements buffer(rank, kInt64, {1, 2});
  void *graph = nullptr, *executable = nullptr;
  CHECK_EQUAL(rank.gpu.cuda("cuStreamBeginCapture_v2", rank.gpu.stream, 1), 0);
  for (int i = 0; i < 2; ++i) {
    rank("ncclAllReduce", buffer.from(0), buffer.at(0), size_t{2}, int{kInt64}, kSum);
  }
  CHECK_EQUAL(rank.gpu.cuda("cuStreamEndCapture", rank.gpu.stream, &graph), 0);
  CHECK_EQUAL(rank.gpu.cuda("cuGraphInstantiateWithFlags", &executable, graph, 0ull), 0);
  rank.gpu.wait();
  CHECK(buffer.holds({1, 2}));
  for (int i = 0; i < 3; ++i) {
    CHECK_EQUAL(rank.gpu.cuda("cuGraphLaunch", executable, rank.gpu.stream), 0);
  }
  rank.gpu.wait();
  CHECK(buffer.holds({729, 1458}));
  CHECK_EQUAL(rank.gpu.cuda("cuGraphExecDestroy", executable), 0);
  CHECK_EQUAL(rank.gpu.cuda("cuGraphDestroy", graph), 0);
}

void check_split(Rank& rank) {
  // Ranks 0 and 2 go together, in reverse; rank 1 stays out.
  void* half = nullptr;
  int color = rank.rank == 1 ? -1 : 4;
  CHECK_EQUAL(
      rank.nccl("ncclCommSplit", rank.comm, color, -rank.rank, &half, static_cast<void*>(nullptr)),
      0);
  CHECK((half == nullptr) == (rank.rank == 1));
  Elements own(rank, kInt32, {rank.rank});
  Elements all(rank, kInt32, zeros(2));
  if (half != nullptr) {
    CHECK_EQUAL(rank.nccl("ncclAllGather", own.from(0), all.at(0), size_t{1}, int{kInt32}, half,
                          rank.gpu.stream),
                0);
    rank.gpu.wait();
    CHECK(all.holds({2, 0}));
    CHECK_EQUAL(rank.nccl("ncclCommDestroy", half), 0);
  }
  rank.meet();
}

/// Not a check: machines differ too much. A look at the output tells.
void measure(Rank& rank) {
  constexpr size_t kFloats = (1 << 20) / 4;
  constexpr int kTurns = 50;
  void* memory = rank.gpu.allocate(kFloats * 4);
  for (Dtype type : {kFloat32, kBfloat16}) {
    int dtype = type;
    size_t count = (1 << 20) / element_bytes(dtype);
    rank.meet();
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kTurns; ++i) {
      rank("ncclAllReduce", static_cast<const void*>(memory), memory, count, dtype, kMax);
    }
    rank.gpu.wait();
    std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - begin;
    if (rank.rank == 0) {
      std::printf("     1 MiB of dtype %d over %d ranks: %.2f ms\n", dtype, rank.ranks,
                  ms.count() / kTurns);
    }
  }
}

}  // namespace

void collective_checks() {
  for (bool old : {false, true}) {
    std::string library = nccl_path(old);
    std::string suffix = old ? ", old library" : "";
    auto joined = [](void (*body)(Rank&)) {
      return [body](Rank& rank) {
        CHECK_EQUAL(rank.join_result, 0);
        body(rank);
        rank.meet();
        CHECK_EQUAL(rank.nccl("ncclCommDestroy", rank.comm), 0);
      };
    };
    run_ranks("movements" + suffix, kRanks, library, joined(check_movements));
    run_ranks("sends and receives" + suffix, kRanks, library, joined(check_exchange));
    run_ranks("splitting" + suffix, kRanks, library, joined(check_split));
    if (old) continue;
    run_ranks("reductions", kRanks, library, joined(check_reductions));
    run_ranks("averages", kRanks, library, joined(check_averages));
    run_ranks("all-to-all in place", kRanks, library, joined(check_alltoall_in_place));
    run_ranks("captured collectives", kRanks, library, joined(check_captured));
    run_ranks("speed", 4, library, joined(measure));
  }
}

}  // namespace selftest
