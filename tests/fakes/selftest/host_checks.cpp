// Host memory that is registered with the fake driver, and values that streams write: within a
// process, and through a page that two processes share.

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

#include "selftest/checks.hpp"
#include "selftest/harness.hpp"
#include "selftest/libraries.hpp"

namespace selftest {
namespace {

constexpr int kInvalidValue = 1, kInvalidHandle = 400, kNotReady = 600, kRegistered = 712,
              kNotRegistered = 713, kCaptureUnsupported = 900;
constexpr unsigned kPortable = 1, kDeviceMap = 2, kReadOnly = 8;
constexpr size_t kPageBytes = 4096;

int enlist(const Gpu& gpu, void* memory, size_t bytes, unsigned flags = 0) {
  return gpu.cuda("cuMemHostRegister_v2", memory, bytes, flags);
}
int unlist(const Gpu& gpu, void* memory) {
  return gpu.cuda("cuMemHostUnregister", memory);
}
int wait_value(const Gpu& gpu, const void* at, unsigned value) {
  return gpu.cuda("cuStreamWaitValue32_v2", gpu.stream, address(at), value, 0u);
}
int write_value(const Gpu& gpu, const void* at, unsigned value, unsigned flags = 0) {
  return gpu.cuda("cuStreamWriteValue32_v2", gpu.stream, address(at), value, flags);
}
int copy(const Gpu& gpu, const void* to, const void* from, size_t bytes) {
  return gpu.cuda("cuMemcpyAsync", address(to), address(from), bytes, gpu.stream);
}
int device_pointer(const Gpu& gpu, void* memory, Address* found, unsigned flags = 0) {
  return gpu.cuda("cuMemHostGetDevicePointer_v2", found, memory, flags);
}
bool pending(const Gpu& gpu) {
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return gpu.cuda("cuStreamQuery", gpu.stream) == kNotReady;
}

char* map_pages(size_t pages, int fd = -1) {
  int kind = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* memory = mmap(nullptr, pages * kPageBytes, PROT_READ | PROT_WRITE, kind, fd, 0);
  CHECK(memory != MAP_FAILED);
  return static_cast<char*>(memory);
}

void check_registering() {
  Gpu gpu(0);
  char* pages = map_pages(4);
  char* middle = pages + kPageBytes;
  std::strcpy(middle, "the caller's");
  CHECK_EQUAL(enlist(gpu, nullptr, 64), kInvalidValue);
  CHECK_EQUAL(enlist(gpu, middle, 0), kInvalidValue);
  CHECK_EQUAL(enlist(gpu, middle, 64, 16), kInvalidValue);
  CHECK_EQUAL(enlist(gpu, middle, SIZE_MAX), kInvalidValue);
  CHECK_EQUAL(enlist(gpu, gpu.allocate(64), 64), kInvalidValue);
  CHECK_EQUAL(munmap(pages + 3 * kPageBytes, kPageBytes), 0);
  CHECK_EQUAL(enlist(gpu, middle, 2 * kPageBytes + 1), kInvalidValue);

  CHECK_EQUAL(enlist(gpu, middle, kPageBytes, 7), 0);
  CHECK_EQUAL(std::strcmp(middle, "the caller's"), 0);
  CHECK_EQUAL(enlist(gpu, middle, kPageBytes), kRegistered);
  CHECK_EQUAL(enlist(gpu, middle + 100, 1), kRegistered);
  CHECK_EQUAL(enlist(gpu, pages, kPageBytes + 1), kRegistered);
  CHECK_EQUAL(enlist(gpu, pages, 3 * kPageBytes), kRegistered);
  CHECK_EQUAL(enlist(gpu, pages, kPageBytes), 0);
  CHECK_EQUAL(enlist(gpu, middle + kPageBytes, kPageBytes), 0);
  void* pinned = nullptr;
  CHECK_EQUAL(gpu.cuda("cuMemHostAlloc", &pinned, size_t{64}, 0u), 0);
  CHECK_EQUAL(enlist(gpu, pinned, 1), kRegistered);

  Address found = 0;
  CHECK_EQUAL(device_pointer(gpu, middle + 8, &found), 0);
  CHECK_EQUAL(found, address(middle + 8));
  CHECK_EQUAL(device_pointer(gpu, pinned, &found), 0);
  CHECK_EQUAL(found, address(pinned));
  CHECK_EQUAL(device_pointer(gpu, middle, &found, 1), kInvalidValue);
  CHECK_EQUAL(device_pointer(gpu, middle, nullptr), kInvalidValue);
  CHECK_EQUAL(device_pointer(gpu, &found, &found), kInvalidValue);
  CHECK_EQUAL(device_pointer(gpu, gpu.allocate(64), &found), kInvalidValue);

  CHECK_EQUAL(gpu.cuda("cuMemFreeHost", static_cast<void*>(middle)), kInvalidValue);
  CHECK_EQUAL(unlist(gpu, middle + 1), kNotRegistered);
  CHECK_EQUAL(unlist(gpu, pinned), kNotRegistered);
  CHECK_EQUAL(unlist(gpu, nullptr), kNotRegistered);
  CHECK_EQUAL(gpu.cuda("cuStreamBeginCapture_v2", gpu.stream, 1), 0);
  CHECK_EQUAL(unlist(gpu, middle), kCaptureUnsupported);
  void* graph = nullptr;
  gpu.cuda("cuStreamEndCapture", gpu.stream, &graph);
  CHECK_EQUAL(unlist(gpu, middle), 0);
  CHECK_EQUAL(unlist(gpu, middle), kNotRegistered);
  CHECK_EQUAL(device_pointer(gpu, middle, &found), kInvalidValue);
  CHECK_EQUAL(write_value(gpu, middle, 1), kInvalidValue);
  CHECK_EQUAL(std::strcmp(middle, "the caller's"), 0);
  CHECK_EQUAL(enlist(gpu, middle, kPageBytes), 0);
  const char* text = nullptr;
  CHECK_EQUAL(gpu.cuda("cuGetErrorString", kRegistered, &text), 0);
  CHECK_EQUAL(gpu.cuda("cuGetErrorString", kNotRegistered, &text), 0);
}

void check_contexts() {
  Gpu other(1), gpu(0);
  auto enter = [&](const Gpu& entered) {
    CHECK_EQUAL(gpu.cuda("cuCtxSetCurrent", entered.context), 0);
  };
  char* own = map_pages(3);
  char *portable = own + kPageBytes, *last = portable + kPageBytes;
  CHECK_EQUAL(enlist(gpu, own, 64, kDeviceMap), 0);
  CHECK_EQUAL(enlist(gpu, portable, 64, kPortable | kDeviceMap), 0);
  enter(other);
  Address found = 0;
  CHECK_EQUAL(device_pointer(other, own, &found), kInvalidValue);
  CHECK_EQUAL(write_value(other, own, 1), kInvalidValue);
  CHECK_EQUAL(wait_value(other, own, 1), kInvalidValue);
  CHECK_EQUAL(unlist(other, own), kNotRegistered);
  CHECK_EQUAL(enlist(other, own, 64), kRegistered);
  // To this context it is pageable.
  CHECK_EQUAL(copy(other, other.allocate(128), own, 128), 0);
  CHECK_EQUAL(device_pointer(other, portable, &found), 0);
  CHECK_EQUAL(write_value(other, portable, 77), 0);
  CHECK_EQUAL(copy(other, other.allocate(128), portable, 128), kInvalidValue);
  other.wait();
  unsigned word = 0;
  std::memcpy(&word, portable, 4);
  CHECK_EQUAL(word, 77);
  CHECK_EQUAL(enlist(other, last, 64), 0);
  // The registrations go with their context, the memory stays.
  CHECK_EQUAL(gpu.cuda("cuDevicePrimaryCtxRelease_v2", 0), 0);
  CHECK_EQUAL(device_pointer(other, portable, &found), kInvalidValue);
  CHECK_EQUAL(enlist(other, own, 2 * kPageBytes), 0);
  std::memcpy(&word, portable, 4);
  CHECK_EQUAL(word, 77);
  CHECK_EQUAL(unlist(other, last), 0);
}

void check_copies_and_writes() {
  Gpu gpu(0);
  char* page = map_pages(2);
  char* fixed = page + kPageBytes;
  CHECK_EQUAL(enlist(gpu, page, kPageBytes), 0);
  CHECK_EQUAL(enlist(gpu, fixed, kPageBytes, kReadOnly), 0);
  auto memory = static_cast<char*>(gpu.allocate(64));
  std::strcpy(page, "there");
  CHECK_EQUAL(copy(gpu, memory, page, 64), 0);
  CHECK_EQUAL(copy(gpu, page + 64, memory, 64), 0);
  gpu.wait();
  CHECK_EQUAL(std::strcmp(page + 64, "there"), 0);
  CHECK_EQUAL(copy(gpu, memory, page + kPageBytes - 63, 64), kInvalidValue);
  gpu.write(memory, fixed, 64);
  CHECK_EQUAL(copy(gpu, memory, fixed, 64), 0);
  CHECK_EQUAL(copy(gpu, fixed, memory, 64), kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuMemcpyDtoH_v2", static_cast<void*>(fixed), address(memory), size_t{64}),
              kInvalidValue);
  CHECK_EQUAL(write_value(gpu, fixed, 1), kInvalidValue);
  CHECK_EQUAL(wait_value(gpu, fixed, 0), 0);

  unsigned host = 0;
  void* pinned = nullptr;
  CHECK_EQUAL(gpu.cuda("cuMemHostAlloc", &pinned, size_t{4}, 0u), 0);
  CHECK_EQUAL(write_value(gpu, &host, 1), kInvalidValue);
  CHECK_EQUAL(write_value(gpu, nullptr, 1), kInvalidValue);
  CHECK_EQUAL(write_value(gpu, page + 2, 1), kInvalidValue);
  CHECK_EQUAL(write_value(gpu, page, 1, 2), kInvalidValue);
  CHECK_EQUAL(write_value(gpu, memory + 64, 1), kInvalidValue);
  CHECK_EQUAL(
      gpu.cuda("cuStreamWriteValue32_v2", static_cast<void*>(nullptr), address(page), 1u, 0u),
      kInvalidHandle);
  // In the stream's order: nothing before the wait ends, all of it afterwards.
  auto gate = reinterpret_cast<std::atomic<unsigned>*>(page + 128);
  auto word = reinterpret_cast<std::atomic<unsigned>*>(page + 132);
  *gate = 0;
  *word = 0;
  CHECK_EQUAL(wait_value(gpu, gate, 1), 0);
  CHECK_EQUAL(write_value(gpu, word, 0xfffffffe), 0);
  CHECK_EQUAL(write_value(gpu, memory, 5, 1), 0);
  CHECK_EQUAL(write_value(gpu, pinned, 6), 0);
  CHECK(pending(gpu));
  CHECK_EQUAL(*word, 0);
  *gate = 1;
  gpu.wait();
  CHECK_EQUAL(*word, 0xfffffffe);
  gpu.read(&host, memory, 4);
  CHECK_EQUAL(host, 5);
  CHECK_EQUAL(*static_cast<unsigned*>(pinned), 6);

  // Unregistering waits for the stream; the caller may take the memory away then.
  CHECK_EQUAL(wait_value(gpu, gate, 2), 0);
  CHECK_EQUAL(write_value(gpu, word, 9), 0);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    *gate = 2;
  });
  CHECK_EQUAL(unlist(gpu, page), 0);
  CHECK_EQUAL(*word, 9);
  opener.join();
}

/// A context that goes takes its waits with it, and what was to come after them.
void check_release() {
  Gpu gpu(0);
  auto words = reinterpret_cast<std::atomic<unsigned>*>(map_pages(1));
  CHECK_EQUAL(enlist(gpu, words, kPageBytes), 0);
  CHECK_EQUAL(write_value(gpu, words, 1), 0);
  CHECK_EQUAL(wait_value(gpu, words + 1, 1), 0);
  CHECK_EQUAL(write_value(gpu, words + 2, 1), 0);
  CHECK(pending(gpu));
  CHECK_EQUAL(gpu.cuda("cuDevicePrimaryCtxRelease_v2", 0), 0);
  CHECK_EQUAL(words[0], 1);
  CHECK_EQUAL(words[2], 0);
}

constexpr unsigned kRounds = 200;
constexpr size_t kMessageWords = 256;

/// What the two processes have in the page.
struct Page {
  std::atomic<unsigned> sent, taken, waiting;
  unsigned message[kMessageWords];
};

/// Messages that the streams of two processes order by themselves.
void exchange(int rank, int fd) {
  Gpu gpu(rank);
  auto page = reinterpret_cast<Page*>(map_pages(1, fd));
  CHECK_EQUAL(enlist(gpu, page, kPageBytes, kPortable | kDeviceMap), 0);
  constexpr size_t kBytes = sizeof(page->message);
  auto memory = static_cast<unsigned char*>(gpu.allocate(kBytes * kRounds));
  if (rank == 0) {
    CHECK_EQUAL(wait_value(gpu, &page->sent, 1), 0);
    CHECK(pending(gpu));
    page->waiting = 1;
  } else {
    while (page->waiting == 0) std::this_thread::yield();
  }
  for (unsigned round = 1; round <= kRounds; ++round) {
    unsigned char* part = memory + (round - 1) * kBytes;
    if (rank == 0) {
      CHECK_EQUAL(wait_value(gpu, &page->sent, round), 0);
      CHECK_EQUAL(copy(gpu, part, page->message, kBytes), 0);
      CHECK_EQUAL(write_value(gpu, &page->taken, round), 0);
    } else {
      CHECK_EQUAL(gpu.cuda("cuMemsetD8Async", address(part), static_cast<unsigned char>(round),
                           kBytes, gpu.stream),
                  0);
      CHECK_EQUAL(wait_value(gpu, &page->taken, round - 1), 0);
      CHECK_EQUAL(copy(gpu, page->message, part, kBytes), 0);
      CHECK_EQUAL(write_value(gpu, &page->sent, round), 0);
    }
  }
  gpu.wait();
  for (unsigned round = 1; round <= kRounds; ++round) {
    unsigned char received[kBytes], expected[kBytes];
    gpu.read(received, memory + (round - 1) * kBytes, kBytes);
    std::memset(expected, static_cast<int>(round), kBytes);
    CHECK_EQUAL(std::memcmp(received, expected, kBytes), 0);
  }
  CHECK_EQUAL(unlist(gpu, page), 0);
  CHECK_EQUAL(munmap(page, kPageBytes), 0);
}

}  // namespace

void host_checks() {
  run("registered memory", 1, [](int) { check_registering(); });
  run("registered memory of contexts", 1, [](int) { check_contexts(); });
  run("copies and writes of registered memory", 1, [](int) { check_copies_and_writes(); });
  run("waits and writes of a context that goes", 1, [](int) { check_release(); });
  int fd = memfd_create("cclmark-fake-selftest", 0);
  CHECK_EQUAL(ftruncate(fd, kPageBytes), 0);
  run("values through a page of two processes", 2, [fd](int rank) { exchange(rank, fd); });
  close(fd);
}

}  // namespace selftest
