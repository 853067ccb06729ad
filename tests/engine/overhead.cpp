// What the engine's timed loop costs per operation, over calling the same function pointer in a
// bare loop: overhead LIBRARY, where LIBRARY speaks NCCL's interface and does nothing.

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "measure/session.hpp"
#include "shapes.hpp"

using namespace cclmark;

namespace {

constexpr size_t kOperations = 1'000'000;
constexpr int kRounds = 15;

using AllReduce = int (*)(const void*, void*, size_t, int, int, void*, void*);

double bare_loop_s(AllReduce all_reduce, void* comm) {
  auto begin = Clock::now();
  for (size_t i = 0; i < kOperations; ++i) {
    if (all_reduce(nullptr, nullptr, 2, 7, 0, comm, nullptr) != 0) std::abort();
  }
  return seconds_between(begin, Clock::now()) / kOperations;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: overhead LIBRARY\n");
    return 2;
  }
  RankGroup rank_group({.fd = memfd_create("overhead", 0)});
  auto device = open_host_device(0);
  auto ccl = open_ccl(shape_of("nccl"), {argv[1], {}});
  auto communicator = ccl->join(*device, ccl->make_id(1), rank_group);
  int board = memfd_create("overhead-board", 0);
  if (ftruncate(board, 64) != 0) return 1;
  OperationCounter counter(board, 32);  // as in a run, where the launcher can look at it
  Session session(*device, rank_group, *communicator, &counter);
  session.reserve(1 << 20, 1 << 20, {});
  Operation op;
  op.count = 2;
  session.prepare(op, false, 1);
  rank_group.expect_within(600, "overhead");
  auto all_reduce = reinterpret_cast<AllReduce>(dlsym(dlopen(argv[1], RTLD_NOW), "ncclAllReduce"));
  std::vector<double> bare, engine;
  for (int round = 0; round < kRounds; ++round) {
    bare.push_back(bare_loop_s(all_reduce, nullptr));
    engine.push_back(
        session.run({.timing = Timing::throughput, .iterations = kOperations}).host_s[0]);
  }
  std::printf("bare loop %.2f ns, engine %.2f ns, overhead %.2f ns per operation\n",
              median(bare) * 1e9, median(engine) * 1e9, (median(engine) - median(bare)) * 1e9);
}
