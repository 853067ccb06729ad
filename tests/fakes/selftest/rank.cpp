#include "selftest/rank.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <new>

namespace selftest {
namespace {

constexpr int kFloat32 = 7, kSum = 0;

struct Shared {
  std::atomic<bool> ready{false};
  UniqueId id{};
};

}  // namespace

void run_ranks(const std::string& name, int ranks, const std::string& library,
               const std::function<void(Rank&)>& body) {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto shared = new (memory) Shared;
  run(name, ranks, [&](int rank) {
    if (rank == 0) {
      CHECK_EQUAL(Library(library)("ncclGetUniqueId", &shared->id), 0);
      shared->ready = true;
    }
    while (!shared->ready) usleep(1000);
    Rank self(rank, ranks, library, shared->id);
    body(self);
  });
  munmap(memory, sizeof(Shared));
}

Rank::Rank(int own, int all, const std::string& library, const UniqueId& id)
    : rank(own), ranks(all), gpu(own), nccl(library), word_(gpu.allocate(4)) {
  join_result = nccl("ncclCommInitRank", &comm, ranks, id, rank);
}

int Rank::async_error() const {
  int code = 0;
  CHECK_EQUAL(nccl("ncclCommGetAsyncError", comm, &code), 0);
  return code;
}

std::string Rank::last_error() const {
  return nccl.text("ncclGetLastError", comm);
}

void Rank::meet() const {
  (*this)("ncclAllReduce", static_cast<const void*>(word_), word_, size_t{1}, kFloat32, kSum);
  gpu.wait();
}

}  // namespace selftest
