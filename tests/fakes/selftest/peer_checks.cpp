// The fake driver between devices: access, copies of any memory, waits for values and events,
// copies that fail.

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "selftest/checks.hpp"
#include "selftest/harness.hpp"
#include "selftest/libraries.hpp"

namespace selftest {
namespace {

constexpr int kInvalidValue = 1, kInvalidDevice = 101, kInvalidContext = 201, kUnsupported = 217,
              kInvalidHandle = 400, kNotReady = 600, kIllegalAddress = 700, kAlreadyEnabled = 704,
              kNotEnabled = 705, kCaptureUnsupported = 900, kCaptureInvalidated = 901,
              kCapturedEvent = 907;

/// Device 0, current, and device 1, each with 64 bytes.
struct Two {
  int copy(const void* to, const void* from, size_t bytes) const {
    return near.cuda("cuMemcpyAsync", address(to), address(from), bytes, near.stream);
  }

  Gpu far{1};
  void* far_memory = far.allocate(64);
  Gpu near{0};
  void* near_memory = near.allocate(64);
};

void check_access() {
  setenv("CCLMARK_FAKE_NO_PEER", "0-2,3-1", 1);
  Gpu gpu(0);
  auto possible = [&](int device, int peer) {
    int can = -1;
    CHECK_EQUAL(gpu.cuda("cuDeviceCanAccessPeer", &can, device, peer), 0);
    return can;
  };
  CHECK_EQUAL(possible(0, 1), 1);
  CHECK_EQUAL(possible(0, 0), 0);
  CHECK_EQUAL(possible(0, 2) + possible(2, 0) + possible(1, 3) + possible(3, 1), 0);
  int can = 0;
  CHECK_EQUAL(gpu.cuda("cuDeviceCanAccessPeer", &can, 0, 4), kInvalidDevice);

  auto atomics = [&](int device, int peer) {
    int found = -1;
    CHECK_EQUAL(gpu.cuda("cuDeviceGetP2PAttribute", &found, 3, device, peer), 0);
    return found;
  };
  CHECK_EQUAL(atomics(0, 1), 1);
  CHECK_EQUAL(atomics(0, 2), 0);
  CHECK_EQUAL(gpu.cuda("cuDeviceGetP2PAttribute", &can, 3, 1, 1), kInvalidDevice);
  CHECK_EQUAL(gpu.cuda("cuDeviceGetP2PAttribute", &can, 9, 0, 1), kInvalidValue);

  void* contexts[4] = {};
  for (int device = 0; device < 4; ++device) {
    CHECK_EQUAL(gpu.cuda("cuDevicePrimaryCtxRetain", &contexts[device], device), 0);
  }
  auto enable = [&](void* peer) { return gpu.cuda("cuCtxEnablePeerAccess", peer, 0u); };
  auto disable = [&](void* peer) { return gpu.cuda("cuCtxDisablePeerAccess", peer); };
  CHECK_EQUAL(gpu.cuda("cuCtxEnablePeerAccess", contexts[1], 1u), kInvalidValue);
  CHECK_EQUAL(enable(contexts[0]), kInvalidContext);
  CHECK_EQUAL(enable(gpu.stream), kInvalidContext);
  CHECK_EQUAL(enable(contexts[2]), kUnsupported);
  CHECK_EQUAL(disable(contexts[1]), kNotEnabled);
  CHECK_EQUAL(enable(contexts[1]), 0);
  CHECK_EQUAL(enable(contexts[1]), kAlreadyEnabled);
  CHECK_EQUAL(enable(contexts[3]), 0);
  // Only the one way.
  CHECK_EQUAL(gpu.cuda("cuCtxSetCurrent", contexts[1]), 0);
  CHECK_EQUAL(disable(contexts[0]), kNotEnabled);
  CHECK_EQUAL(gpu.cuda("cuCtxSetCurrent", contexts[0]), 0);
  CHECK_EQUAL(disable(contexts[1]), 0);
  CHECK_EQUAL(disable(contexts[1]), kNotEnabled);
  CHECK_EQUAL(enable(contexts[1]), 0);
  const char* text = nullptr;
  CHECK_EQUAL(gpu.cuda("cuGetErrorString", kAlreadyEnabled, &text), 0);
  CHECK_EQUAL(std::strcmp(text, "peer access is already enabled"), 0);
}

void check_copies() {
  Two two;
  void* pinned = nullptr;
  char pageable[64] = "through everything";
  CHECK_EQUAL(two.near.cuda("cuMemHostAlloc", &pinned, size_t{0}, 0u), kInvalidValue);
  CHECK_EQUAL(two.near.cuda("cuMemHostAlloc", &pinned, size_t{64}, 8u), kInvalidValue);
  CHECK_EQUAL(two.near.cuda("cuMemHostAlloc", &pinned, size_t{64}, 3u), 0);
  auto bytes = static_cast<char*>(pinned);
  CHECK_EQUAL(two.copy(two.near_memory, pageable, 64), 0);
  CHECK_EQUAL(two.copy(two.far_memory, two.near_memory, 64), 0);
  CHECK_EQUAL(two.copy(bytes, two.far_memory, 64), 0);
  two.near.wait();
  CHECK_EQUAL(std::strcmp(bytes, pageable), 0);
  std::strcpy(bytes, "and back");
  char read_back[64] = "";
  auto peer_copy = [&](const void* to, void* to_context, const void* from, void* from_context) {
    return two.near.cuda("cuMemcpyPeerAsync", address(to), to_context, address(from), from_context,
                         size_t{64}, two.near.stream);
  };
  CHECK_EQUAL(two.copy(two.far_memory, bytes, 64), 0);
  CHECK_EQUAL(peer_copy(two.near_memory, two.near.context, two.far_memory, two.far.context), 0);
  CHECK_EQUAL(two.copy(read_back, two.near_memory, 64), 0);
  two.near.wait();
  CHECK_EQUAL(std::strcmp(read_back, "and back"), 0);

  CHECK_EQUAL(peer_copy(two.near_memory, two.far.context, two.far_memory, two.far.context),
              kInvalidValue);
  CHECK_EQUAL(peer_copy(two.near_memory, two.near.context, two.far_memory, two.near.context),
              kInvalidValue);
  CHECK_EQUAL(peer_copy(two.near_memory, two.near.context, bytes, two.far.context), kInvalidValue);
  CHECK_EQUAL(peer_copy(two.near_memory, two.near.context, two.far_memory, nullptr),
              kInvalidContext);
  CHECK_EQUAL(two.copy(two.near_memory, two.far_memory, 65), kInvalidValue);
  CHECK_EQUAL(two.copy(bytes + 1, two.far_memory, 64), kInvalidValue);
  CHECK_EQUAL(two.copy(two.near_memory, nullptr, 64), kInvalidValue);
  CHECK_EQUAL(two.near.cuda("cuMemcpyAsync", address(two.near_memory), address(bytes), size_t{64},
                            two.far.stream),
              kInvalidHandle);
  CHECK_EQUAL(two.near.cuda("cuMemFreeHost", static_cast<void*>(bytes + 1)), kInvalidValue);
  CHECK_EQUAL(two.near.cuda("cuMemFreeHost", pinned), 0);
  CHECK_EQUAL(two.near.cuda("cuMemFreeHost", pinned), kInvalidValue);
  CHECK_EQUAL(two.near.cuda("cuMemFree_v2", address(two.far_memory)), 0);
  CHECK_EQUAL(two.copy(two.near_memory, two.far_memory, 64), kInvalidValue);
}

void check_wait_value() {
  Gpu gpu(0);
  void* pinned = nullptr;
  CHECK_EQUAL(gpu.cuda("cuMemHostAlloc", &pinned, size_t{4}, 0u), 0);
  auto word = static_cast<volatile unsigned*>(pinned);
  auto memory = static_cast<unsigned*>(gpu.allocate(8));
  unsigned host[2] = {0, 0};
  gpu.write(memory, host, sizeof(host));
  auto wait = [&](Address at, unsigned value, unsigned flags) {
    return gpu.cuda("cuStreamWaitValue32_v2", gpu.stream, at, value, flags);
  };
  CHECK_EQUAL(wait(address(pinned) + 2, 1, 0), kInvalidValue);
  CHECK_EQUAL(wait(address(host), 1, 0), kInvalidValue);
  CHECK_EQUAL(wait(address(pinned), 1, 2), kInvalidValue);
  CHECK_EQUAL(
      gpu.cuda("cuStreamWaitValue32_v2", static_cast<void*>(nullptr), address(pinned), 1u, 0u),
      kInvalidHandle);

  // From 2^32 - 1 on, counters that wrapped are further.
  *word = 0xfffffffe;
  CHECK_EQUAL(wait(address(pinned), 0xffffffff, 0), 0);
  CHECK_EQUAL(wait(address(memory), 7, 1), 0);
  CHECK_EQUAL(gpu.cuda("cuMemsetD8Async", address(memory + 1), static_cast<unsigned char>(1),
                       size_t{4}, gpu.stream),
              0);
  auto pending = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return gpu.cuda("cuStreamQuery", gpu.stream) == kNotReady;
  };
  CHECK(pending());
  *word = 1;
  host[0] = 8;
  gpu.write(memory, host, 4);
  CHECK(pending());
  gpu.read(host, memory, sizeof(host));
  CHECK_EQUAL(host[1], 0);
  host[0] = 7;
  gpu.write(memory, host, 4);
  gpu.wait();
  gpu.read(host, memory, sizeof(host));
  CHECK_EQUAL(host[1], 0x01010101);
}

/// Streams of two devices, and an event of the one that waits for `gate`.
struct Crossing : Two {
  Crossing() {
    char zeros[64] = {};
    near.write(near_memory, zeros, 64);
    near.write(far_memory, zeros, 64);
    enter(far);
    // Of the context whose streams wait for it: it goes after them.
    void* pinned = nullptr;
    CHECK_EQUAL(far.cuda("cuMemHostAlloc", &pinned, size_t{4}, 0u), 0);
    gate = static_cast<std::atomic<unsigned>*>(pinned);
    *gate = 0;
    CHECK_EQUAL(far.cuda("cuEventCreate", &event, 2u), 0);
    CHECK_EQUAL(far.cuda("cuStreamCreate", &far_second, 1u), 0);
    enter(near);
  }
  void enter(const Gpu& gpu) const { CHECK_EQUAL(gpu.cuda("cuCtxSetCurrent", gpu.context), 0); }
  int wait_event(void* stream, unsigned flags = 0) const {
    return near.cuda("cuStreamWaitEvent", stream, event, flags);
  }
  /// The device's work, and the record, once the gate holds `value`.
  void record_after(unsigned value, void* stream) const {
    enter(far);
    CHECK_EQUAL(far.cuda("cuStreamWaitValue32_v2", stream, address(gate), value, 0u), 0);
    CHECK_EQUAL(far.cuda("cuMemsetD8Async", address(far_memory), static_cast<unsigned char>(value),
                         size_t{64}, stream),
                0);
    CHECK_EQUAL(far.cuda("cuEventRecord", event, stream), 0);
    enter(near);
  }
  int state_soon() const {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return near.cuda("cuStreamQuery", near.stream);
  }
  char first_near_byte() const {
    char host = -1;
    near.read(&host, near_memory, 1);
    return host;
  }

  std::atomic<unsigned>* gate;
  void* event = nullptr;
  void* far_second = nullptr;
};

void check_wait_event() {
  Crossing crossing;
  const Gpu& near = crossing.near;
  CHECK_EQUAL(crossing.wait_event(near.stream, 1), kInvalidValue);
  CHECK_EQUAL(crossing.wait_event(crossing.far.stream), kInvalidHandle);
  CHECK_EQUAL(crossing.wait_event(nullptr), kInvalidHandle);
  CHECK_EQUAL(near.cuda("cuStreamWaitEvent", near.stream, near.stream, 0u), kInvalidHandle);
  CHECK_EQUAL(crossing.wait_event(near.stream), 0);
  near.wait();

  crossing.record_after(1, crossing.far.stream);
  CHECK_EQUAL(crossing.wait_event(near.stream), 0);
  // A record that follows, on a stream that is ahead, is not the one waited for; nor the reverse.
  crossing.enter(crossing.far);
  CHECK_EQUAL(near.cuda("cuEventRecord", crossing.event, crossing.far_second), 0);
  crossing.enter(near);
  CHECK_EQUAL(crossing.copy(crossing.near_memory, crossing.far_memory, 64), 0);
  CHECK_EQUAL(crossing.state_soon(), kNotReady);
  *crossing.gate = 1;
  near.wait();
  CHECK_EQUAL(crossing.first_near_byte(), 1);

  crossing.record_after(2, crossing.far.stream);
  crossing.record_after(3, crossing.far_second);
  CHECK_EQUAL(crossing.wait_event(near.stream), 0);
  *crossing.gate = 2;
  crossing.enter(crossing.far);
  crossing.far.wait();
  crossing.enter(near);
  CHECK_EQUAL(crossing.state_soon(), kNotReady);
  CHECK_EQUAL(near.cuda("cuMemcpyDtoDAsync_v2", address(crossing.near_memory),
                        address(crossing.far_memory), size_t{64}, near.stream),
              0);
  *crossing.gate = 3;
  near.wait();
  CHECK_EQUAL(crossing.first_near_byte(), 3);
}

void check_wait_event_captured() {
  Crossing crossing;
  const Gpu& near = crossing.near;
  void* graph = nullptr;
  auto begin = [&](int mode) {
    CHECK_EQUAL(near.cuda("cuStreamBeginCapture_v2", near.stream, mode), 0);
  };
  begin(2);
  CHECK_EQUAL(crossing.wait_event(near.stream), kCaptureUnsupported);
  CHECK_EQUAL(near.cuda("cuStreamEndCapture", near.stream, &graph), 0);
  begin(1);
  CHECK_EQUAL(crossing.wait_event(near.stream), kCaptureUnsupported);
  CHECK_EQUAL(near.cuda("cuStreamEndCapture", near.stream, &graph), kCaptureInvalidated);
  void* captured = nullptr;
  CHECK_EQUAL(near.cuda("cuEventCreate", &captured, 2u), 0);
  begin(1);
  CHECK_EQUAL(near.cuda("cuEventRecord", captured, near.stream), 0);
  CHECK_EQUAL(near.cuda("cuStreamEndCapture", near.stream, &graph), 0);
  CHECK_EQUAL(near.cuda("cuStreamWaitEvent", near.stream, captured, 0u), kCapturedEvent);
}

/// What an event's waiters do when it cannot come any more.
void check_wait_event_ends() {
  setenv("CCLMARK_FAKE_COPY_FAIL", "1-0", 1);
  {
    Crossing crossing;
    crossing.record_after(1, crossing.far.stream);
    CHECK_EQUAL(crossing.wait_event(crossing.near.stream), 0);
    CHECK_EQUAL(crossing.state_soon(), kNotReady);
    CHECK_EQUAL(crossing.near.cuda("cuDevicePrimaryCtxRelease_v2", 1), 0);
    CHECK_EQUAL(crossing.state_soon(), kInvalidContext);
    CHECK_EQUAL(crossing.near.cuda("cuDevicePrimaryCtxRelease_v2", 0), 0);
  }
  Crossing crossing;
  crossing.enter(crossing.far);
  CHECK_EQUAL(crossing.near.cuda("cuMemcpyAsync", address(crossing.near_memory),
                                 address(crossing.far_memory), size_t{4}, crossing.far.stream),
              0);
  crossing.record_after(0, crossing.far.stream);
  CHECK_EQUAL(crossing.wait_event(crossing.near.stream), 0);
  CHECK_EQUAL(crossing.state_soon(), kIllegalAddress);
  void* fresh = nullptr;
  CHECK_EQUAL(crossing.near.cuda("cuStreamCreate", &fresh, 1u), 0);
  crossing.record_after(1, crossing.far_second);
  CHECK_EQUAL(crossing.wait_event(fresh), 0);
  CHECK_EQUAL(crossing.near.cuda("cuStreamQuery", fresh), kNotReady);
  // The waiter's own context goes first.
  CHECK_EQUAL(crossing.near.cuda("cuDevicePrimaryCtxRelease_v2", 0), 0);
}

void check_faults() {
  setenv("CCLMARK_FAKE_COPY_HANG", "0-1", 1);
  setenv("CCLMARK_FAKE_COPY_FAIL", "1-0", 1);
  Two two;
  char host[4] = {1, 2, 3, 4};
  CHECK_EQUAL(two.copy(two.far_memory, host, 4), 0);
  two.near.wait();
  CHECK_EQUAL(two.copy(two.far_memory, two.near_memory, 4), 0);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK_EQUAL(two.near.cuda("cuStreamQuery", two.near.stream), kNotReady);
  }
  CHECK_EQUAL(two.near.cuda("cuStreamCreate", &two.near.stream, 1u), 0);
  CHECK_EQUAL(two.copy(two.near_memory, two.far_memory, 4), 0);
  int state = kNotReady;
  while (state == kNotReady) state = two.near.cuda("cuStreamQuery", two.near.stream);
  CHECK_EQUAL(state, kIllegalAddress);
  CHECK_EQUAL(two.near.cuda("cuStreamQuery", two.near.stream), kIllegalAddress);
  // The context takes the work that hangs with it.
  CHECK_EQUAL(two.near.cuda("cuDevicePrimaryCtxRelease_v2", 0), 0);
}

}  // namespace

void peer_checks() {
  run("access to peers", 1, [](int) { check_access(); });
  run("copies of any memory", 1, [](int) { check_copies(); });
  run("waits for values", 1, [](int) { check_wait_value(); });
  run("waits for events", 1, [](int) { check_wait_event(); });
  run("waits for events in captures", 1, [](int) { check_wait_event_captured(); });
  run("waits for events that never come", 1, [](int) { check_wait_event_ends(); });
  run("copies that fail", 1, [](int) { check_faults(); });
}

}  // namespace selftest
