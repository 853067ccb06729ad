// The fake driver: memory, strictness, asynchrony, events and graphs.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "selftest/checks.hpp"
#include "selftest/harness.hpp"
#include "selftest/libraries.hpp"

namespace selftest {
namespace {

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3, kNoDevice = 100,
              kInvalidDevice = 101, kInvalidContext = 201, kInvalidHandle = 400,
              kIllegalState = 401, kNotReady = 600, kCaptureUnsupported = 900,
              kCaptureInvalidated = 901;

/// Work that holds a stream up until told.
struct Gate {
  std::atomic<bool> open{false};
  static void pass(void* gate) {
    while (!static_cast<Gate*>(gate)->open) std::this_thread::yield();
  }
  static void keep(void*) {}
};

void close_gate(const Gpu& gpu, Gate& gate) {
  CHECK_EQUAL(gpu.cuda("cclmark_fake_enqueue", gpu.stream, &Gate::pass, static_cast<void*>(&gate),
                       &Gate::keep),
              0);
}

void check_no_devices() {
  setenv("CCLMARK_FAKE_DEVICES", "0", 1);
  CHECK_EQUAL(Library(cuda_path())("cuInit", 0u), kNoDevice);
}

void check_devices() {
  setenv("CCLMARK_FAKE_DEVICES", "2", 1);
  Library cuda(cuda_path());
  int count = 0, device = 0;
  void* context = nullptr;
  CHECK_EQUAL(cuda("cuDeviceGetCount", &count), kNotInitialized);
  CHECK_EQUAL(cuda("cuInit", 1u), kInvalidValue);
  CHECK_EQUAL(cuda("cuInit", 0u), 0);
  CHECK_EQUAL(cuda("cuDeviceGetCount", &count), 0);
  CHECK_EQUAL(count, 2);
  CHECK_EQUAL(cuda("cuDeviceGet", &device, 2), kInvalidDevice);
  CHECK_EQUAL(cuda("cuDeviceGetAttribute", &count, 75, 1), 0);
  CHECK_EQUAL(count, 9);
  Address memory = 0;
  CHECK_EQUAL(cuda("cuMemAlloc_v2", &memory, size_t{16}), kInvalidContext);
  CHECK_EQUAL(cuda("cuCtxSetCurrent", static_cast<void*>(&device)), kInvalidContext);
  CHECK_EQUAL(cuda("cuDevicePrimaryCtxRetain", &context, 1), 0);
  CHECK_EQUAL(cuda("cuCtxSetCurrent", context), 0);
  CHECK_EQUAL(cuda("cuMemAlloc_v2", &memory, size_t{16}), 0);
  CHECK_EQUAL(cuda("cuDevicePrimaryCtxRelease_v2", 1), 0);
  CHECK_EQUAL(cuda("cuMemFree_v2", memory), kInvalidContext);
  const char* text = nullptr;
  CHECK_EQUAL(cuda("cuGetErrorString", kInvalidContext, &text), 0);
  CHECK_EQUAL(std::strcmp(text, "invalid device context"), 0);
  CHECK_EQUAL(cuda("cuGetErrorString", 12345, &text), kInvalidValue);
}

void check_memory() {
  setenv("CCLMARK_FAKE_MEMORY", "1048576", 1);
  Gpu gpu(0);
  Address whole = 0, memory = 0;
  CHECK_EQUAL(gpu.cuda("cuMemAlloc_v2", &memory, size_t{0}), kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuMemAlloc_v2", &memory, size_t{1048577}), kOutOfMemory);
  CHECK_EQUAL(gpu.cuda("cuMemAlloc_v2", &whole, size_t{1048576}), 0);
  CHECK_EQUAL(gpu.cuda("cuMemAlloc_v2", &memory, size_t{1}), kOutOfMemory);
  size_t free = 1, total = 0;
  CHECK_EQUAL(gpu.cuda("cuMemGetInfo_v2", &free, &total), 0);
  CHECK_EQUAL(free, 0);
  CHECK_EQUAL(total, 1048576);
  CHECK_EQUAL(gpu.cuda("cuMemFree_v2", whole + 512), kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuMemFree_v2", whole), 0);
  CHECK_EQUAL(gpu.cuda("cuMemFree_v2", whole), kInvalidValue);

  void* first = gpu.allocate(100);
  void* second = gpu.allocate(100);
  char host[101] = "host";
  CHECK_EQUAL(
      gpu.cuda("cuMemcpyHtoD_v2", address(first), static_cast<const void*>(host), size_t{101}),
      kInvalidValue);
  CHECK_EQUAL(
      gpu.cuda("cuMemcpyHtoD_v2", address(first), static_cast<const void*>(second), size_t{100}),
      kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuMemcpyDtoH_v2", static_cast<void*>(host), address(host), size_t{10}),
              kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuMemcpyDtoDAsync_v2", address(second), address(first) + 50, size_t{51},
                       gpu.stream),
              kInvalidValue);
  int fd = 0;
  size_t offset = 0, file_bytes = 0;
  unsigned serial = 0;
  auto locate = [&](const void* memory_at, size_t bytes) {
    return gpu.cuda("cclmark_fake_locate", memory_at, bytes, &fd, &offset, &serial, &file_bytes);
  };
  CHECK_EQUAL(locate(first, 100), 0);
  gpu.write(first, host, sizeof(host) - 1);
  char read_back[5] = "";
  CHECK_EQUAL(pread(fd, read_back, 4, static_cast<off_t>(offset)), 4);
  CHECK_EQUAL(std::strcmp(read_back, "host"), 0);
  CHECK_EQUAL(locate(first, 101), kInvalidValue);
  CHECK_EQUAL(locate(host, 1), kInvalidValue);
}

/// Touches memory behind an allocation in a process of its own.
void check_guard() {
  pid_t child = fork();
  if (child == 0) {
    Gpu gpu(0);
    auto memory = static_cast<volatile char*>(gpu.allocate(4096));
    // With a sanitizer the crash would be reported; without, the signal says it.
    signal(SIGSEGV, [](int) { _exit(42); });
    memory[4096] = 1;
    _exit(0);
  }
  int status = 0;
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK_EQUAL(WEXITSTATUS(status), 42);
}

void check_streams_and_events() {
  Gpu gpu(0);
  auto memory = static_cast<char*>(gpu.allocate(64));
  char host[64] = {};
  gpu.write(memory, host, sizeof(host));
  void *start = nullptr, *end = nullptr, *never = nullptr, *untimed = nullptr;
  for (void** event : {&start, &end, &never}) {
    CHECK_EQUAL(gpu.cuda("cuEventCreate", event, 0u), 0);
  }
  CHECK_EQUAL(gpu.cuda("cuEventCreate", &untimed, 2u), 0);
  CHECK_EQUAL(gpu.cuda("cuEventCreate", &untimed, 8u), kInvalidValue);

  Gate gate;
  CHECK_EQUAL(gpu.cuda("cuEventRecord", start, gpu.stream), 0);
  close_gate(gpu, gate);
  CHECK_EQUAL(gpu.cuda("cuMemsetD8Async", address(memory), static_cast<unsigned char>(7),
                       size_t{64}, gpu.stream),
              0);
  CHECK_EQUAL(gpu.cuda("cuEventRecord", end, gpu.stream), 0);
  CHECK_EQUAL(gpu.cuda("cuStreamQuery", gpu.stream), kNotReady);
  float ms = 0;
  CHECK_EQUAL(gpu.cuda("cuEventElapsedTime", &ms, start, end), kNotReady);
  // Nobody waited, so nothing has happened.
  gpu.read(host, memory, sizeof(host));
  CHECK_EQUAL(host[63], 0);
  // A busy machine records the first event late, and the time counts from it.
  auto is_recorded = [&](void* event) {
    return gpu.cuda("cuEventElapsedTime", &ms, event, event) != kNotReady;
  };
  for (int waited_ms = 0; waited_ms < 10000 && !is_recorded(start); ++waited_ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  gate.open = true;
  gpu.wait();
  gpu.read(host, memory, sizeof(host));
  CHECK_EQUAL(host[63], 7);
  CHECK_EQUAL(gpu.cuda("cuEventElapsedTime", &ms, start, end), 0);
  CHECK(ms >= 19 && ms < 10000);
  CHECK_EQUAL(gpu.cuda("cuEventElapsedTime", &ms, start, never), kInvalidHandle);
  CHECK_EQUAL(gpu.cuda("cuEventRecord", untimed, gpu.stream), 0);
  CHECK_EQUAL(gpu.cuda("cuEventElapsedTime", &ms, start, untimed), kInvalidHandle);

  CHECK_EQUAL(gpu.cuda("cuEventDestroy_v2", end), 0);
  CHECK_EQUAL(gpu.cuda("cuEventRecord", end, gpu.stream), kInvalidHandle);
  CHECK_EQUAL(gpu.cuda("cuStreamDestroy_v2", start), kInvalidHandle);
  CHECK_EQUAL(gpu.cuda("cuStreamDestroy_v2", gpu.stream), 0);
  CHECK_EQUAL(gpu.cuda("cuStreamQuery", gpu.stream), kInvalidHandle);
  CHECK_EQUAL(gpu.cuda("cuStreamQuery", static_cast<void*>(nullptr)), kInvalidHandle);
}

void check_other_context() {
  Gpu gpu(0);
  void* other = nullptr;
  CHECK_EQUAL(gpu.cuda("cuDevicePrimaryCtxRetain", &other, 1), 0);
  CHECK_EQUAL(gpu.cuda("cuCtxSetCurrent", other), 0);
  CHECK_EQUAL(gpu.cuda("cuStreamQuery", gpu.stream), kInvalidHandle);
  CHECK_EQUAL(gpu.cuda("cuCtxSetCurrent", static_cast<void*>(nullptr)), 0);
  CHECK_EQUAL(gpu.cuda("cuStreamQuery", gpu.stream), kInvalidContext);
}

void check_graphs() {
  Gpu gpu(0);
  auto memory = static_cast<char*>(gpu.allocate(3));
  auto shift = [&](int from, int to) {
    return gpu.cuda("cuMemcpyDtoDAsync_v2", address(memory + to), address(memory + from), size_t{1},
                    gpu.stream);
  };
  char host[4] = "abc";
  gpu.write(memory, host, 3);
  void *graph = nullptr, *executable = nullptr;
  CHECK_EQUAL(gpu.cuda("cuStreamEndCapture", gpu.stream, &graph), kIllegalState);
  CHECK_EQUAL(gpu.cuda("cuStreamBeginCapture_v2", gpu.stream, 3), kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuStreamBeginCapture_v2", gpu.stream, 1), 0);
  CHECK_EQUAL(gpu.cuda("cuStreamBeginCapture_v2", gpu.stream, 1), kIllegalState);
  CHECK_EQUAL(shift(1, 2), 0);
  CHECK_EQUAL(shift(0, 1), 0);
  CHECK_EQUAL(gpu.cuda("cuStreamEndCapture", gpu.stream, &graph), 0);
  gpu.wait();
  gpu.read(host, memory, 3);
  CHECK_EQUAL(std::strcmp(host, "abc"), 0);

  CHECK_EQUAL(gpu.cuda("cuGraphInstantiateWithFlags", &executable, graph, 1ull << 40),
              kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuGraphInstantiateWithFlags", &executable, graph, 0ull), 0);
  CHECK_EQUAL(gpu.cuda("cuGraphDestroy", graph), 0);
  CHECK_EQUAL(gpu.cuda("cuGraphLaunch", graph, gpu.stream), kInvalidHandle);
  for (int launch = 0; launch < 2; ++launch) {
    CHECK_EQUAL(gpu.cuda("cuGraphLaunch", executable, gpu.stream), 0);
  }
  CHECK_EQUAL(gpu.cuda("cuGraphExecDestroy", executable), 0);
  gpu.wait();
  gpu.read(host, memory, 3);
  CHECK_EQUAL(std::strcmp(host, "aaa"), 0);

  // What waits, or changes memory, spoils a capture.
  CHECK_EQUAL(gpu.cuda("cuStreamBeginCapture_v2", gpu.stream, 1), 0);
  CHECK_EQUAL(gpu.cuda("cuStreamQuery", gpu.stream), kCaptureUnsupported);
  CHECK_EQUAL(shift(0, 1), kCaptureInvalidated);
  CHECK_EQUAL(gpu.cuda("cuStreamEndCapture", gpu.stream, &graph), kCaptureInvalidated);
  CHECK(graph == nullptr);
  CHECK_EQUAL(gpu.cuda("cuStreamBeginCapture_v2", gpu.stream, 1), 0);
  Address more = 0;
  CHECK_EQUAL(gpu.cuda("cuMemAlloc_v2", &more, size_t{16}), kCaptureUnsupported);
  CHECK_EQUAL(gpu.cuda("cuStreamEndCapture", gpu.stream, &graph), kCaptureInvalidated);
}

}  // namespace

void cuda_checks() {
  run("a machine without devices", 1, [](int) { check_no_devices(); });
  run("devices and contexts", 1, [](int) { check_devices(); });
  run("memory", 1, [](int) { check_memory(); });
  run("memory behind allocations", 1, [](int) { check_guard(); });
  run("streams and events", 1, [](int) { check_streams_and_events(); });
  run("handles of another context", 1, [](int) { check_other_context(); });
  run("graphs", 1, [](int) { check_graphs(); });
}

}  // namespace selftest
