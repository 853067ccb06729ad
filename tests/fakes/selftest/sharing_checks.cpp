// Device memory of the fake driver that two processes share.

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "selftest/checks.hpp"
#include "selftest/harness.hpp"
#include "selftest/libraries.hpp"

namespace selftest {
namespace {

constexpr int kInvalidValue = 1, kInvalidContext = 201, kUnsupported = 217, kInvalidHandle = 400,
              kNotSupported = 801;
constexpr size_t kBytes = 10000;

struct IpcHandle {
  char bytes[64];
};

/// What two processes know of each other.
struct Shared {
  std::atomic<int> step{0};
  IpcHandle handle{};
};

void reach(Shared& shared, int step) {
  shared.step = step;
}
void await(const Shared& shared, int step) {
  while (shared.step < step) usleep(1000);
}

/// Runs `body(rank, shared)` in two processes.
template <typename Body>
void run_two(const char* name, Body body) {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto shared = new (memory) Shared;
  run(name, 2, [&](int rank) { body(rank, *shared); });
  munmap(memory, sizeof(Shared));
}

int get_handle(const Gpu& gpu, IpcHandle& handle, const void* memory) {
  return gpu.cuda("cuIpcGetMemHandle", &handle, address(memory));
}
int open_handle(const Gpu& gpu, Address& memory, const IpcHandle& handle, unsigned flags = 1) {
  return gpu.cuda("cuIpcOpenMemHandle_v2", &memory, handle, flags);
}

/// Exports, and checks what the other process did with the memory.
void be_exporter(Shared& shared) {
  Gpu gpu(0);
  auto memory = static_cast<char*>(gpu.allocate(kBytes));
  CHECK_EQUAL(gpu.cuda("cuMemsetD8Async", address(memory), static_cast<unsigned char>(5), kBytes,
                       gpu.stream),
              0);
  gpu.wait();
  char host[8] = {};
  CHECK_EQUAL(get_handle(gpu, shared.handle, host), kInvalidValue);
  // A place in the middle stands for the allocation.
  CHECK_EQUAL(get_handle(gpu, shared.handle, memory + 77), 0);
  Address opened = 0;
  CHECK_EQUAL(open_handle(gpu, opened, shared.handle), kInvalidContext);
  reach(shared, 1);
  await(shared, 2);
  gpu.read(host, memory, 8);
  CHECK_EQUAL(std::memcmp(host, "\5\5peers\5", 8), 0);
  gpu.read(host, memory + kBytes - 1, 1);
  CHECK_EQUAL(host[0], 9);
}

void be_importer(Shared& shared) {
  setenv("CCLMARK_FAKE_NO_PEER", "0-2", 1);
  await(shared, 1);
  Gpu gpu(1);
  Address opened = 0, again = 0;
  CHECK_EQUAL(open_handle(gpu, opened, IpcHandle{}), kInvalidHandle);
  CHECK_EQUAL(open_handle(gpu, opened, shared.handle, 0), kInvalidValue);
  CHECK_EQUAL(open_handle(gpu, opened, shared.handle), 0);
  CHECK_EQUAL(open_handle(gpu, again, shared.handle), 0);
  CHECK_EQUAL(again, opened);
  // As a kernel would.
  CHECK_EQUAL(reinterpret_cast<volatile char*>(opened)[kBytes - 1], 5);

  auto own = static_cast<char*>(gpu.allocate(kBytes));
  auto copy = [&](Address to, Address from, size_t bytes) {
    return gpu.cuda("cuMemcpyAsync", to, from, bytes, gpu.stream);
  };
  CHECK_EQUAL(copy(address(own), opened, kBytes), 0);
  gpu.wait();
  char host[8] = {};
  gpu.read(host, own + kBytes - 8, 8);
  CHECK_EQUAL(std::memcmp(host, "\5\5\5\5\5\5\5\5", 8), 0);
  gpu.write(own, "peers", 5);
  CHECK_EQUAL(copy(opened + 2, address(own), 5), 0);
  CHECK_EQUAL(gpu.cuda("cuMemsetD8Async", opened + kBytes - 1, static_cast<unsigned char>(9),
                       size_t{1}, gpu.stream),
              0);
  CHECK_EQUAL(copy(opened, address(own), kBytes + 1), kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuMemcpyPeerAsync", address(own), gpu.context, opened, gpu.context,
                       size_t{8}, gpu.stream),
              0);
  gpu.wait();
  gpu.read(host, own, 8);
  CHECK_EQUAL(std::memcmp(host, "\5\5peers\5", 8), 0);

  CHECK_EQUAL(gpu.cuda("cuMemFree_v2", opened), kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuIpcCloseMemHandle", opened + 1), kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuIpcCloseMemHandle", opened), 0);
  CHECK_EQUAL(copy(opened, address(own), 1), 0);
  gpu.wait();
  gpu.write(own, "\5", 1);
  CHECK_EQUAL(copy(opened, address(own), 1), 0);
  CHECK_EQUAL(gpu.cuda("cuIpcCloseMemHandle", opened), 0);
  CHECK_EQUAL(gpu.cuda("cuIpcCloseMemHandle", opened), kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuMemcpyDtoDAsync_v2", opened, address(own), size_t{1}, gpu.stream),
              kInvalidValue);
  Gpu without_access(2);
  CHECK_EQUAL(open_handle(without_access, opened, shared.handle), kUnsupported);
  reach(shared, 2);
}

void check_no_ipc() {
  setenv("CCLMARK_FAKE_NO_IPC", "1", 1);
  Gpu gpu(0);
  IpcHandle handle{};
  Address opened = 0;
  CHECK_EQUAL(get_handle(gpu, handle, gpu.allocate(16)), kNotSupported);
  CHECK_EQUAL(open_handle(gpu, opened, handle), kNotSupported);
  CHECK_EQUAL(gpu.cuda("cuIpcCloseMemHandle", opened), kNotSupported);
}

}  // namespace

void sharing_checks() {
  run_two("memory opened by a handle",
          [](int rank, Shared& shared) { rank == 0 ? be_exporter(shared) : be_importer(shared); });
  run("no memory by handles", 1, [](int) { check_no_ipc(); });
}

}  // namespace selftest
