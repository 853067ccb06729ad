// What the fake NCCL refuses, how it fails, and the faults that can be injected.

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "selftest/checks.hpp"
#include "selftest/rank.hpp"

namespace selftest {
namespace {

constexpr int kUnhandledCudaError = 1, kSystemError = 2, kInternalError = 3, kInvalidArgument = 4,
              kInvalidUsage = 5;
constexpr int kInt32 = 2, kFp8e4m3 = 10, kSum = 0;
constexpr int kRanks = 3;

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// An all_reduce of one number.
int all_reduce(const Rank& rank, void* memory, size_t count = 1, int dtype = kInt32,
               int op = kSum) {
  return rank.call("ncclAllReduce", static_cast<const void*>(memory), memory, count, dtype, op);
}

void check_arguments(Rank& rank) {
  CHECK_EQUAL(rank.join_result, 0);
  auto memory = static_cast<char*>(rank.gpu.allocate(64));
  char host[64] = "";
  CHECK_EQUAL(all_reduce(rank, memory, 1, 12), kInvalidArgument);
  CHECK_EQUAL(all_reduce(rank, memory, 1, -1), kInvalidArgument);
  CHECK_EQUAL(all_reduce(rank, memory, 1, kInt32, 5), kInvalidArgument);
  CHECK_EQUAL(all_reduce(rank, memory, 17), kInvalidArgument);
  CHECK(contains(rank.last_error(), "not device memory"));
  CHECK_EQUAL(all_reduce(rank, memory + 1), kInvalidArgument);
  CHECK_EQUAL(all_reduce(rank, host), kInvalidArgument);
  CHECK_EQUAL(all_reduce(rank, nullptr), kInvalidArgument);
  CHECK_EQUAL(all_reduce(rank, memory, size_t{1} << 63), kInvalidArgument);
  CHECK_EQUAL(rank.call("ncclBroadcast", static_cast<const void*>(memory),
                        static_cast<void*>(memory), size_t{1}, kInt32, kRanks),
              kInvalidArgument);
  CHECK_EQUAL(rank.call("ncclSend", static_cast<const void*>(memory), size_t{1}, kInt32, -1),
              kInvalidArgument);
  auto with = [&](void* comm, void* stream) {
    return rank.nccl("ncclAllReduce", static_cast<const void*>(memory), static_cast<void*>(memory),
                     size_t{1}, kInt32, kSum, comm, stream);
  };
  CHECK_EQUAL(with(nullptr, rank.gpu.stream), kInvalidArgument);
  CHECK_EQUAL(with(rank.comm, rank.comm), kUnhandledCudaError);
  CHECK_EQUAL(rank.nccl("ncclGroupEnd"), kInvalidUsage);
  // One bad call spoils the group.
  CHECK_EQUAL(rank.nccl("ncclGroupStart"), 0);
  CHECK_EQUAL(all_reduce(rank, memory), 0);
  CHECK_EQUAL(all_reduce(rank, host), kInvalidArgument);
  CHECK_EQUAL(rank.nccl("ncclGroupEnd"), kInvalidArgument);
  CHECK_EQUAL(all_reduce(rank, memory, 0), 0);
  rank.meet();
  CHECK_EQUAL(rank.nccl("ncclCommDestroy", rank.comm), 0);
  CHECK_EQUAL(rank.nccl("ncclCommDestroy", rank.comm), kInvalidArgument);
  CHECK_EQUAL(with(rank.comm, rank.gpu.stream), kInvalidArgument);
}

void check_versions(Rank& rank) {
  CHECK_EQUAL(rank.join_result, 0);
  int version = 0;
  CHECK_EQUAL(rank.nccl("ncclGetVersion", &version), 0);
  CHECK_EQUAL(version, 21805);
  for (const char* absent : {"ncclAlltoAll", "ncclGather", "ncclScatter", "ncclMemAlloc",
                             "ncclCommRegister", "ncclCommWindowRegister"}) {
    CHECK(!rank.nccl.has(absent));
  }
  void* memory = rank.gpu.allocate(64);
  CHECK_EQUAL(all_reduce(rank, memory, 1, kFp8e4m3), kInvalidArgument);
  setenv("CCLMARK_FAKE_NCCL_VERSION", "22901", 1);
  CHECK_EQUAL(rank.nccl("ncclGetVersion", &version), 0);
  CHECK_EQUAL(version, 22901);
}

void check_registration(Rank& rank) {
  CHECK_EQUAL(rank.join_result, 0);
  void *memory = nullptr, *handle = nullptr, *window = nullptr;
  CHECK_EQUAL(rank.nccl("ncclMemAlloc", &memory, size_t{5000}), 0);
  CHECK_EQUAL(rank.nccl("ncclCommRegister", rank.comm, memory, size_t{5000}, &handle), 0);
  CHECK_EQUAL(rank.nccl("ncclMemFree", memory), kInvalidUsage);
  CHECK_EQUAL(rank.nccl("ncclCommDeregister", rank.comm, memory), kInvalidArgument);
  CHECK_EQUAL(rank.nccl("ncclCommWindowDeregister", rank.comm, handle), kInvalidArgument);
  CHECK_EQUAL(rank.nccl("ncclCommDeregister", rank.comm, handle), 0);

  auto open = [&](void* at, size_t bytes, int flags) {
    return rank.nccl("ncclCommWindowRegister", rank.comm, at, bytes, &window, flags);
  };
  CHECK_EQUAL(open(rank.gpu.allocate(8192), 5000, 1), kInvalidArgument);
  CHECK_EQUAL(open(memory, 5000, 0), kInvalidArgument);
  CHECK_EQUAL(open(memory, rank.rank == 1 ? 4000 : 5000, 1), kInvalidArgument);
  CHECK_EQUAL(open(memory, rank.rank == 1 ? 50000 : 5000, 1), kInvalidArgument);
  CHECK_EQUAL(open(memory, 5000, 1), 0);
  CHECK_EQUAL(all_reduce(rank, memory, 1250), 0);
  rank.gpu.wait();
  CHECK_EQUAL(rank.nccl("ncclMemFree", memory), kInvalidUsage);
  CHECK_EQUAL(rank.nccl("ncclCommWindowDeregister", rank.comm, window), 0);
  CHECK_EQUAL(rank.nccl("ncclMemFree", memory), 0);
  CHECK_EQUAL(rank.nccl("ncclMemFree", memory), kInvalidArgument);
}

void check_corruption(Rank& rank) {
  CHECK_EQUAL(rank.join_result, 0);
  setenv("CCLMARK_FAKE_NCCL_CORRUPT", "1:AllReduce:2", 1);
  int values[4] = {1, 2, 3, 4};
  void* memory = rank.gpu.allocate(sizeof(values));
  rank.gpu.write(memory, values, sizeof(values));
  CHECK_EQUAL(all_reduce(rank, memory, 4), 0);
  rank.gpu.wait();
  rank.gpu.read(values, memory, sizeof(values));
  CHECK_EQUAL(values[1], 6);
  CHECK_EQUAL(values[2], rank.rank == 1 ? ~9 : 9);
  CHECK_EQUAL(values[3], 12);
}

void check_injected_failure(Rank& rank) {
  CHECK_EQUAL(rank.join_result, 0);
  setenv("CCLMARK_FAKE_NCCL_FAIL", "2:AllReduce", 1);
  void* memory = rank.gpu.allocate(4);
  if (rank.rank != 2) return;
  CHECK_EQUAL(all_reduce(rank, memory), kInternalError);
  CHECK(contains(rank.last_error(), "injected failure of AllReduce on rank 2"));
}

/// Rank 1 hangs: nobody's operation ends, and an abort frees each at once.
void check_hang_and_abort(Rank& rank) {
  CHECK_EQUAL(rank.join_result, 0);
  setenv("CCLMARK_FAKE_NCCL_HANG", "1:AllReduce", 1);
  void* memory = rank.gpu.allocate(4);
  CHECK_EQUAL(all_reduce(rank, memory), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK_EQUAL(rank.gpu.cuda("cuStreamQuery", rank.gpu.stream), 600);
  CHECK_EQUAL(rank.async_error(), 0);
  auto begin = std::chrono::steady_clock::now();
  CHECK_EQUAL(rank.nccl("ncclCommAbort", rank.comm), 0);
  rank.gpu.wait();
  CHECK(seconds_since(begin) < 1);
}

/// A peer that is gone: an asynchronous error within the limit, seen while the stream is busy.
void check_dead_peer(Rank& rank) {
  CHECK_EQUAL(rank.join_result, 0);
  void* memory = rank.gpu.allocate(4);
  if (rank.rank == 2) _exit(0);
  CHECK_EQUAL(all_reduce(rank, memory), 0);
  auto begin = std::chrono::steady_clock::now();
  while (rank.async_error() == 0 && seconds_since(begin) < 10) {
  }
  CHECK_EQUAL(rank.async_error(), kSystemError);
  CHECK(contains(rank.last_error(), "timed out after 1 s"));
  CHECK_EQUAL(rank.gpu.cuda("cuStreamQuery", rank.gpu.stream), 600);
  CHECK_EQUAL(all_reduce(rank, memory), kSystemError);
  CHECK_EQUAL(rank.nccl("ncclCommAbort", rank.comm), 0);
  rank.gpu.wait();
}

void check_disagreement(Rank& rank) {
  CHECK_EQUAL(rank.join_result, 0);
  void* memory = rank.gpu.allocate(64);
  CHECK_EQUAL(all_reduce(rank, memory, rank.rank == 1 ? 3 : 2), 0);
  rank.gpu.wait();
  CHECK_EQUAL(rank.async_error(), kInvalidUsage);
  CHECK(contains(rank.last_error(), "count 3"));
}

void check_uneven_transfer(Rank& rank) {
  CHECK_EQUAL(rank.join_result, 0);
  void* memory = rank.gpu.allocate(64);
  if (rank.rank == 0) {
    CHECK_EQUAL(rank.call("ncclSend", static_cast<const void*>(memory), size_t{2}, kInt32, 1), 0);
  } else {
    CHECK_EQUAL(rank.call("ncclRecv", memory, size_t{3}, kInt32, 0), 0);
  }
  rank.gpu.wait();
  CHECK_EQUAL(rank.async_error(), rank.rank == 0 ? kSystemError : kInvalidUsage);
}

void check_joining() {
  Gpu gpu(0);
  Library nccl(nccl_path());
  UniqueId id{}, bad{};
  void* comm = nullptr;
  CHECK_EQUAL(nccl("ncclGetUniqueId", &id), 0);
  bad = id;
  bad.bytes[100] = 1;
  CHECK_EQUAL(nccl("ncclCommInitRank", &comm, 1, bad, 0), kInvalidArgument);
  CHECK_EQUAL(nccl("ncclCommInitRank", &comm, 1, id, 1), kInvalidArgument);
  CHECK_EQUAL(nccl("ncclCommInitRank", &comm, 33, id, 0), kInvalidArgument);
  CHECK_EQUAL(nccl("ncclCommInitRank", &comm, 1, id, 0), 0);
  CHECK_EQUAL(nccl("ncclCommInitRank", &comm, 1, id, 0), kInvalidUsage);
  CHECK_EQUAL(nccl("ncclCommInitRank", &comm, 2, id, 1), kInvalidArgument);
  UniqueId lonely{};
  CHECK_EQUAL(nccl("ncclGetUniqueId", &lonely), 0);
  setenv("CCLMARK_FAKE_TIMEOUT_S", "1", 1);
  CHECK_EQUAL(nccl("ncclCommInitRank", &comm, 2, lonely, 1), kSystemError);
  CHECK(comm == nullptr);
}

}  // namespace

void fault_checks() {
  std::string library = nccl_path();
  run_ranks("bad arguments", kRanks, library, check_arguments);
  run_ranks("the old library", 2, nccl_path(true), check_versions);
  run_ranks("registration", kRanks, library, check_registration);
  run_ranks("injected corruption", kRanks, library, check_corruption);
  run_ranks("injected failure", kRanks, library, check_injected_failure);
  run_ranks("injected hang and abort", kRanks, library, check_hang_and_abort);
  run("joining", 1, [](int) { check_joining(); });
  setenv("CCLMARK_FAKE_TIMEOUT_S", "1", 1);
  run_ranks("a dead peer", kRanks, library, check_dead_peer);
  run_ranks("ranks that disagree", kRanks, library, check_disagreement);
  run_ranks("a message of the wrong size", 2, library, check_uneven_transfer);
  unsetenv("CCLMARK_FAKE_TIMEOUT_S");
}

}  // namespace selftest
