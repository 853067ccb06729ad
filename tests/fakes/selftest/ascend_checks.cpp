// What the fakes of Huawei's libraries refuse: a caller that has its arguments wrong is to be told.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "selftest/checks.hpp"
#include "selftest/harness.hpp"
#include "selftest/libraries.hpp"

namespace selftest {
namespace {

constexpr int kInvalidParameter = 100000, kUninitialized = 100001, kRepeated = 100002,
              kInvalidDevice = 107001, kOtherContext = 107003, kInvalidHandle = 107017,
              kRefused = 207000, kOutOfMemory = 207001;
constexpr int kParameter = 1, kPointer = 2, kNotSupported = 5, kRuntime = 15;
constexpr int kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3;
constexpr int kInt16 = 1, kInt32 = 2, kFloat32 = 4, kUint64 = 6, kUint8 = 7, kUint16 = 8,
              kFloat64 = 10, kBfloat16 = 11, kInt128 = 12;
constexpr int kSum = 0, kProd = 1;
constexpr uint32_t kSync = 1, kTimeLine = 8;

const char* const kRuntimePath = FAKES_DIR "/libascendcl.so";

struct RootInfo {
  char bytes[4108];
};

/// An Ascend device of this process, current on this thread, with one stream.
class Npu {
 public:
  explicit Npu(int device) : acl(kRuntimePath) {
    setenv("CCLMARK_ASCENDCL_LIBRARY", kRuntimePath, 1);
    CHECK_EQUAL(acl("aclInit", static_cast<const char*>(nullptr)), 0);
    CHECK_EQUAL(acl("aclrtSetDevice", device), 0);
    CHECK_EQUAL(acl("aclrtGetCurrentContext", &context), 0);
    CHECK_EQUAL(acl("aclrtCreateStream", &stream), 0);
  }
  char* allocate(size_t bytes) const {
    void* memory = nullptr;
    CHECK_EQUAL(acl("aclrtMalloc", &memory, bytes, 0), 0);
    return static_cast<char*>(memory);
  }
  void wait() const {
    for (int state = 1; state != 0;) CHECK_EQUAL(acl("aclrtStreamQuery", stream, &state), 0);
  }

  Library acl;
  void* context = nullptr;
  void* stream = nullptr;
};

void check_devices() {
  Library acl(kRuntimePath);
  uint32_t count = 0;
  CHECK_EQUAL(acl("aclrtGetDeviceCount", &count), kUninitialized);
  CHECK(std::strstr(acl.text("aclGetRecentErrMsg"), "aclInit was not called") != nullptr);
  CHECK(acl.text("aclGetRecentErrMsg") == nullptr);
  CHECK_EQUAL(acl("aclrtSetDevice", 0), kUninitialized);
  CHECK_EQUAL(acl("aclInit", "acl.json"), kInvalidParameter);
  Npu npu(1);
  CHECK_EQUAL(acl("aclInit", static_cast<const char*>(nullptr)), kRepeated);
  CHECK_EQUAL(acl("aclrtSetDevice", 4), kInvalidDevice);
  CHECK_EQUAL(acl("aclrtSetCurrentContext", static_cast<void*>(nullptr)), kInvalidParameter);
  char version[128] = "";
  char package[] = "toolkit";
  CHECK(acl("aclsysGetVersionStr", package, version) != 0);
}

void check_copies() {
  Npu npu(0);
  char *first = npu.allocate(64), *second = npu.allocate(64), pageable[64] = "";
  void* pinned = nullptr;
  CHECK_EQUAL(npu.acl("aclrtMallocHost", &pinned, size_t{64}), 0);
  auto host = static_cast<char*>(pinned);
  std::memset(host, 5, 64);
  // On a stream and at once.
  auto copy = [&](void* to, size_t most, const void* from, size_t bytes, int kind) {
    int code = npu.acl("aclrtMemcpyAsync", to, most, from, bytes, kind, npu.stream);
    CHECK_EQUAL(npu.acl("aclrtMemcpy", to, most, from, bytes, kind), code);
    return code;
  };
  auto source = static_cast<const void*>(host);
  CHECK_EQUAL(copy(first, 64, source, 64, kHostToDevice), 0);
  CHECK_EQUAL(copy(first, 63, source, 64, kHostToDevice), kInvalidParameter);
  CHECK_EQUAL(copy(first, 65, source, 65, kHostToDevice), kInvalidParameter);
  CHECK_EQUAL(copy(first, 64, source, 64, kDeviceToHost), kInvalidParameter);
  CHECK_EQUAL(copy(first, 64, source, 64, kDeviceToDevice), kInvalidParameter);
  CHECK_EQUAL(copy(first, 64, source, 64, 0), kInvalidParameter);
  CHECK_EQUAL(npu.acl("aclrtMemcpyAsync", pinned, size_t{64}, source, size_t{64}, 0, npu.stream),
              kRefused);
  CHECK_EQUAL(npu.acl("aclrtMemcpyAsync", static_cast<void*>(pageable), size_t{64},
                      static_cast<const void*>(first), size_t{64}, kDeviceToHost, npu.stream),
              kInvalidParameter);
  CHECK_EQUAL(copy(first, 64, source, 64, 4), kInvalidParameter);
  CHECK_EQUAL(copy(nullptr, 64, source, 64, kHostToDevice), kInvalidParameter);
  CHECK_EQUAL(copy(second, 64, first, 64, kDeviceToDevice), 0);
  npu.wait();
  CHECK_EQUAL(npu.acl("aclrtMemcpy", static_cast<void*>(pageable), size_t{64},
                      static_cast<const void*>(second), size_t{64}, kDeviceToHost),
              0);
  CHECK(std::memcmp(pageable, host, sizeof(pageable)) == 0);

  auto fill = [&](void* memory, size_t most, size_t bytes) {
    return npu.acl("aclrtMemsetAsync", memory, most, int32_t{7}, bytes, npu.stream);
  };
  CHECK_EQUAL(fill(first, 64, 64), 0);
  CHECK_EQUAL(fill(first, 8, 64), kInvalidParameter);
  CHECK_EQUAL(fill(pinned, 64, 64), kInvalidParameter);
  void* memory = nullptr;
  CHECK_EQUAL(npu.acl("aclrtMalloc", &memory, size_t{1} << 40, 0), kOutOfMemory);
  CHECK_EQUAL(npu.acl("aclrtMalloc", &memory, size_t{0}, 0), kInvalidParameter);
  CHECK_EQUAL(npu.acl("aclrtMalloc", &memory, size_t{64}, 8), kInvalidParameter);
  CHECK_EQUAL(npu.acl("aclrtFree", static_cast<void*>(first + 8)), kInvalidParameter);
}

void check_streams_and_events() {
  Npu npu(0);
  auto create = [&](void** event, uint32_t flag) {
    return npu.acl("aclrtCreateEventWithFlag", event, flag);
  };
  void *plain = nullptr, *start = nullptr, *end = nullptr;
  CHECK_EQUAL(create(&plain, 0), kInvalidParameter);
  CHECK_EQUAL(create(&plain, 4), kInvalidParameter);
  CHECK_EQUAL(create(&plain, kSync), 0);
  CHECK_EQUAL(create(&start, kTimeLine), 0);
  CHECK_EQUAL(create(&end, kTimeLine), 0);
  float ms = -1;
  CHECK(npu.acl("aclrtEventElapsedTime", &ms, start, end) != 0);
  for (void* event : {plain, start, end}) {
    CHECK_EQUAL(npu.acl("aclrtRecordEvent", event, npu.stream), 0);
  }
  npu.wait();
  CHECK_EQUAL(npu.acl("aclrtEventElapsedTime", &ms, start, end), 0);
  CHECK(ms >= 0);
  CHECK_EQUAL(npu.acl("aclrtEventElapsedTime", &ms, plain, end), kInvalidHandle);

  int state = 0;
  CHECK_EQUAL(npu.acl("aclrtStreamQuery", static_cast<void*>(nullptr), &state), kInvalidHandle);
  CHECK_EQUAL(npu.acl("aclrtSynchronizeStream", static_cast<void*>(nullptr)), kInvalidHandle);
  CHECK_EQUAL(npu.acl("aclrtSetDevice", 1), 0);
  CHECK_EQUAL(npu.acl("aclrtStreamQuery", npu.stream, &state), kOtherContext);
  CHECK(npu.acl("aclrtRecordEvent", start, npu.stream) != 0);
}

/// One rank alone: what is refused does not depend on others.
class LoneRank {
 public:
  explicit LoneRank(const char* path = FAKES_DIR "/libhccl.so") : hccl(path) {
    CHECK_EQUAL(hccl("HcclGetRootInfo", &root), 0);
    CHECK_EQUAL(join(root, 1, 0), 0);
  }
  int join(const RootInfo& info, uint32_t ranks, uint32_t rank) {
    return hccl("HcclCommInitRootInfo", ranks, &info, rank, &comm);
  }
  int all_reduce(void* memory, uint64_t count, int dtype, int op) const {
    return hccl("HcclAllReduce", memory, memory, count, dtype, op, comm, npu.stream);
  }

  Npu npu{0};
  Library hccl;
  RootInfo root{};
  void* comm = nullptr;
};

void check_root_info() {
  LoneRank lone;
  for (size_t at : {size_t{0}, size_t{127}, size_t{128}, sizeof(RootInfo) - 1}) {
    RootInfo changed;
    CHECK_EQUAL(lone.hccl("HcclGetRootInfo", &changed), 0);
    changed.bytes[at] = static_cast<char>(~changed.bytes[at]);
    CHECK_EQUAL(lone.join(changed, 1, 0), kParameter);
  }
  RootInfo fresh;
  CHECK_EQUAL(lone.hccl("HcclGetRootInfo", &fresh), 0);
  CHECK_EQUAL(lone.join(fresh, 1, 1), kParameter);
  CHECK_EQUAL(
      lone.hccl("HcclCommInitRootInfo", 1u, static_cast<const RootInfo*>(nullptr), 0u, &lone.comm),
      kPointer);
}

void check_operations() {
  LoneRank lone;
  char* memory = lone.npu.allocate(64);
  char host[64] = "";
  CHECK_EQUAL(lone.all_reduce(memory, 16, kFloat32, kSum), 0);
  CHECK_EQUAL(lone.all_reduce(memory, 17, kFloat32, kSum), kParameter);
  CHECK_EQUAL(lone.all_reduce(memory + 1, 1, kFloat32, kSum), kParameter);
  CHECK_EQUAL(lone.all_reduce(host, 1, kFloat32, kSum), kParameter);
  CHECK_EQUAL(lone.all_reduce(memory, 1, kInt32, 4), kParameter);
  for (int dtype : {kUint16, kUint8, kUint64, kFloat64, kInt128, -1}) {
    CHECK_EQUAL(lone.all_reduce(memory, 1, dtype, kSum), kNotSupported);
  }
  CHECK_EQUAL(lone.all_reduce(memory, 1, kBfloat16, kSum), 0);
  CHECK_EQUAL(lone.all_reduce(memory, 1, kInt16, kSum), 0);
  for (int dtype : {kBfloat16, kInt16}) {
    CHECK_EQUAL(lone.all_reduce(memory, 1, dtype, kProd), kNotSupported);
  }

  auto place = static_cast<void*>(memory);
  auto with = [&](void* comm, void* stream) {
    return lone.hccl("HcclBroadcast", place, uint64_t{1}, kFloat32, 0u, comm, stream);
  };
  CHECK_EQUAL(with(lone.comm, lone.npu.stream), 0);
  CHECK_EQUAL(with(nullptr, lone.npu.stream), kPointer);
  CHECK_EQUAL(with(lone.comm, nullptr), kPointer);
  CHECK_EQUAL(with(lone.comm, lone.comm), kRuntime);
  CHECK_EQUAL(
      lone.hccl("HcclBroadcast", place, uint64_t{1}, kFloat32, 1u, lone.comm, lone.npu.stream),
      kParameter);
  for (const char* call : {"HcclSend", "HcclRecv"}) {
    CHECK_EQUAL(lone.hccl(call, place, uint64_t{1}, kFloat32, 0u, lone.comm, lone.npu.stream),
                kParameter);
  }
  lone.npu.wait();
  CHECK_EQUAL(lone.hccl("HcclCommDestroy", lone.comm), 0);
  CHECK_EQUAL(with(lone.comm, lone.npu.stream), kParameter);
}

void check_exchanges() {
  struct Item {
    int type;
    void* memory;
    uint64_t count;
    int dtype;
    uint32_t peer;
  };
  LoneRank lone;
  char *from = lone.npu.allocate(64), *to = lone.npu.allocate(64);
  char text[64] = "to myself", back[64] = "";
  CHECK_EQUAL(lone.npu.acl("aclrtMemcpy", static_cast<void*>(from), size_t{64},
                           static_cast<const void*>(text), size_t{64}, kHostToDevice),
              0);
  auto batch = [&](std::initializer_list<Item> list) {
    Item items[4];
    std::copy(list.begin(), list.end(), items);
    return lone.hccl("HcclBatchSendRecv", items, static_cast<uint32_t>(list.size()), lone.comm,
                     lone.npu.stream);
  };
  Item send{0, from, 16, kFloat32, 0}, receive{1, to, 16, kFloat32, 0};
  CHECK_EQUAL(batch({send}), kParameter);
  CHECK_EQUAL(batch({send, {1, to, 15, kFloat32, 0}}), kParameter);
  CHECK_EQUAL(batch({send, receive, {2, to, 1, kFloat32, 0}}), kParameter);
  CHECK_EQUAL(batch({send, receive, {0, from, 1, kFloat32, 1}}), kParameter);
  CHECK_EQUAL(batch({}), kParameter);
  CHECK_EQUAL(batch({send, receive}), 0);
  lone.npu.wait();
  CHECK_EQUAL(lone.npu.acl("aclrtMemcpy", static_cast<void*>(back), size_t{64},
                           static_cast<const void*>(to), size_t{64}, kDeviceToHost),
              0);
  CHECK(std::strcmp(back, text) == 0);

  const uint64_t count = 16, other = 15, offset = 0;
  auto uneven = [&](const uint64_t* sent, const uint64_t* received, int received_type) {
    return lone.hccl("HcclAlltoAllV", static_cast<const void*>(from), sent, &offset, kFloat32,
                     static_cast<const void*>(to), received, &offset, received_type, lone.comm,
                     lone.npu.stream);
  };
  CHECK_EQUAL(uneven(&count, &count, kFloat32), 0);
  CHECK_EQUAL(uneven(&count, &other, kFloat32), kParameter);
  CHECK_EQUAL(uneven(&count, &count, kInt32), kParameter);
  CHECK_EQUAL(uneven(nullptr, &count, kFloat32), kPointer);
  lone.npu.wait();
}

void check_variants() {
  Library old(FAKES_DIR "/old/libhccl.so"), front(FAKES_DIR "/split/libhccl.so"),
      back(FAKES_DIR "/split/libhcomm.so");
  for (const char* absent : {"HcclAlltoAll", "HcclReduce", "HcclScatter", "HcclBatchSendRecv",
                             "HcclBarrier", "HcclGetErrorString", "HcclGetCommAsyncError"}) {
    CHECK(!old.has(absent));
  }
  CHECK(old.has("HcclAlltoAllV"));
  CHECK(front.has("HcclGetErrorString") && !front.has("HcclGetRootInfo"));
  CHECK(back.has("HcclGetRootInfo") && !back.has("HcclGetErrorString"));
}

}  // namespace

void ascend_checks() {
  auto alone = [](const char* name, void (*body)()) {
    run(std::string("Ascend: ") + name, 1, [body](int) { body(); });
  };
  alone("devices", check_devices);
  alone("copies", check_copies);
  alone("streams and events", check_streams_and_events);
  alone("root infos", check_root_info);
  alone("operations", check_operations);
  alone("exchanges", check_exchanges);
  alone("variants", check_variants);
}

}  // namespace selftest
