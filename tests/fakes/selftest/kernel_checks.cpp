// The fake NVRTC, and kernels on the fake driver.

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "selftest/checks.hpp"
#include "selftest/harness.hpp"
#include "selftest/libraries.hpp"

namespace selftest {
namespace {

constexpr int kInvalidOption = 5, kCompilationFailed = 6;
constexpr int kInvalidValue = 1, kInvalidImage = 200, kNoBinary = 209, kNotFound = 500;

constexpr char kSource[] = R"(
#define KERNEL(name) extern "C" __global__ void name
struct Arguments { unsigned* data; unsigned long long count; unsigned factor; };
__device__ __forceinline__ unsigned scaled(const Arguments& a, unsigned i) { return a.factor * i; }
KERNEL(scale)(const Arguments a) {
  unsigned stride = gridDim.x * blockDim.x;
  for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += stride)
    a.data[i] = scaled(a, i);
}
extern "C" __global__ void
measure(const uint4* data, unsigned long long* sum, unsigned long long* least) {
  uint4 mine = __ldcs(data + threadIdx.x + threadIdx.y * blockDim.x);
  atomicAdd(sum, (unsigned long long)mine.x + mine.y + mine.z + mine.w);
  atomicMin(least, (unsigned long long)mine.w);
}
)";

struct Compiled {
  int code;
  std::string log;
  std::string image;
};

Compiled compile(const std::string& source, std::vector<const char*> options) {
  Library nvrtc(nvrtc_path());
  void* program = nullptr;
  CHECK_EQUAL(
      nvrtc("nvrtcCreateProgram", &program, source.c_str(), "test.cu", 0,
            static_cast<const char* const*>(nullptr), static_cast<const char* const*>(nullptr)),
      0);
  Compiled result;
  result.code = nvrtc("nvrtcCompileProgram", program, static_cast<int>(options.size()),
                      static_cast<const char* const*>(options.data()));
  size_t bytes = 0;
  CHECK_EQUAL(nvrtc("nvrtcGetProgramLogSize", program, &bytes), 0);
  result.log.resize(bytes);
  CHECK_EQUAL(nvrtc("nvrtcGetProgramLog", program, result.log.data()), 0);
  CHECK_EQUAL(nvrtc("nvrtcGetCUBINSize", program, &bytes), 0);
  result.image.resize(bytes);
  CHECK_EQUAL(nvrtc("nvrtcGetCUBIN", program, result.image.data()), bytes > 0 ? 0 : 4);
  CHECK_EQUAL(nvrtc("nvrtcDestroyProgram", &program), 0);
  CHECK(program == nullptr);
  return result;
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

void check_refusals() {
  Compiled none = compile(kSource, {"--std=c++17"});
  CHECK_EQUAL(none.code, kInvalidOption);
  CHECK(contains(none.log, "--gpu-architecture"));
  CHECK_EQUAL(compile(kSource, {"--gpu-architecture=sm_99", "--nonsense"}).code, kInvalidOption);

  Compiled wrong =
      compile("\n__global__ void f() { undeclared = 1; }", {"--gpu-architecture=sm_99"});
  CHECK_EQUAL(wrong.code, kCompilationFailed);
  CHECK(contains(wrong.log, "test.cu:2") && contains(wrong.log, "undeclared"));

  Compiled shared = compile("#define WAIT __syncthreads()\n__global__ void f() { WAIT; }",
                            {"--gpu-architecture=sm_99"});
  CHECK_EQUAL(shared.code, kCompilationFailed);
  CHECK(contains(shared.log, "does not do __syncthreads"));
  // A word in a comment is no use of it.
  CHECK_EQUAL(compile("// __shared__\n", {"--gpu-architecture=sm_99", "-DX=1"}).code, 0);

  setenv("CXX", "no-such-compiler", 1);
  Compiled missing = compile(kSource, {"--gpu-architecture=sm_99"});
  CHECK_EQUAL(missing.code, kCompilationFailed);
  CHECK(contains(missing.log, "no-such-compiler"));
}

void launch(const Gpu& gpu, void* function, unsigned blocks, unsigned x, unsigned y,
            std::vector<void*> parameters, int expected = 0) {
  CHECK_EQUAL(gpu.cuda("cuLaunchKernel", function, blocks, 1u, 1u, x, y, 1u, 0u, gpu.stream,
                       parameters.data(), static_cast<void**>(nullptr)),
              expected);
}

void check_kernels() {
  Gpu gpu(0);
  void *module = nullptr, *scale = nullptr, *measure = nullptr;
  CHECK_EQUAL(gpu.cuda("cuModuleLoadData", &module, static_cast<const void*>("no image")),
              kInvalidImage);
  std::string foreign = compile(kSource, {"--gpu-architecture=sm_80"}).image;
  CHECK_EQUAL(gpu.cuda("cuModuleLoadData", &module, static_cast<const void*>(foreign.data())),
              kNoBinary);
  std::string image = compile(kSource, {"--gpu-architecture=sm_99", "--std=c++17"}).image;
  CHECK_EQUAL(gpu.cuda("cuModuleLoadData", &module, static_cast<const void*>(image.data())), 0);
  CHECK_EQUAL(gpu.cuda("cuModuleGetFunction", &scale, module, "absent"), kNotFound);
  CHECK_EQUAL(gpu.cuda("cuModuleGetFunction", &scale, module, "scale"), 0);
  CHECK_EQUAL(gpu.cuda("cuModuleGetFunction", &measure, module, "measure"), 0);

  constexpr size_t kCount = 1000;
  struct {
    void* data;
    unsigned long long count;
    unsigned factor;
  } arguments{gpu.allocate(kCount * 4), kCount, 3};
  void* data = arguments.data;
  launch(gpu, scale, 1, 2048, 1, {&arguments}, kInvalidValue);
  launch(gpu, scale, 0, 64, 1, {&arguments}, kInvalidValue);
  launch(gpu, scale, 2, 64, 1, {nullptr}, kInvalidValue);
  launch(gpu, scale, 3, 64, 1, {&arguments});
  // The launch has its own copy.
  arguments = {};
  gpu.wait();
  std::vector<unsigned> values(kCount);
  gpu.read(values.data(), data, kCount * 4);
  for (size_t i = 0; i < kCount; ++i) CHECK_EQUAL(values[i], 3 * i);

  // 2 × 5 threads, each with one uint4: elements 0..39, captured and launched twice.
  auto counters = static_cast<unsigned long long*>(gpu.allocate(16));
  unsigned long long host[2] = {0, ~0ull};
  gpu.write(counters, host, sizeof(host));
  unsigned long long *sum = counters, *least = counters + 1;
  void *graph = nullptr, *executable = nullptr;
  CHECK_EQUAL(gpu.cuda("cuStreamBeginCapture_v2", gpu.stream, 1), 0);
  launch(gpu, measure, 1, 2, 5, {&data, &sum, &least});
  CHECK_EQUAL(gpu.cuda("cuStreamEndCapture", gpu.stream, &graph), 0);
  CHECK_EQUAL(gpu.cuda("cuGraphInstantiateWithFlags", &executable, graph, 0ull), 0);
  for (int i = 0; i < 2; ++i) CHECK_EQUAL(gpu.cuda("cuGraphLaunch", executable, gpu.stream), 0);
  gpu.wait();
  gpu.read(host, counters, sizeof(host));
  CHECK_EQUAL(host[0], 2 * 3 * (39 * 40 / 2));
  CHECK_EQUAL(host[1], 9);
}

constexpr char kMeeting[] = R"(
#if defined(__CUDA_ARCH__)
#error
#endif
extern "C" __global__ void meet(volatile unsigned* own, const unsigned* other, unsigned* seen) {
  unsigned long long begin = cclmark_now_ns();
  *own = 1 + threadIdx.x;
  __threadfence_system();
  if (threadIdx.x + 1 == blockDim.x) {
    while (__ldg((const volatile unsigned*)other) < blockDim.x) {
      if (cclmark_now_ns() - begin > 20000000000ull) return;
      __nanosleep(100);
    }
  }
  seen[threadIdx.x] = gridDim.x * 100 + blockDim.x * 10 + threadIdx.x;
}
)";

/// Kernels of one module on two streams that cannot end one after the other, nor without the host.
void check_concurrent_kernels() {
  Gpu gpu(0);
  std::string image = compile(kMeeting, {"--gpu-architecture=sm_99"}).image;
  void *module = nullptr, *meet = nullptr, *host = nullptr, *streams[3] = {gpu.stream};
  CHECK_EQUAL(gpu.cuda("cuModuleLoadData", &module, static_cast<const void*>(image.data())), 0);
  CHECK_EQUAL(gpu.cuda("cuModuleGetFunction", &meet, module, "meet"), 0);
  CHECK_EQUAL(gpu.cuda("cuStreamCreate", &streams[1], 1u), 0);
  CHECK_EQUAL(gpu.cuda("cuStreamCreate", &streams[2], 1u), 0);
  CHECK_EQUAL(gpu.cuda("cuMemHostAlloc", &host, size_t{8}, 0u), 0);
  auto word = static_cast<volatile unsigned*>(host);
  word[0] = 0;
  word[1] = 0;
  auto device = static_cast<unsigned*>(gpu.allocate(64));
  unsigned zeros[16] = {};
  gpu.write(device, zeros, sizeof(zeros));

  auto start = [&](void* stream, volatile unsigned* own, volatile unsigned* other, unsigned* seen) {
    void* parameters[] = {&own, &other, &seen};
    CHECK_EQUAL(gpu.cuda("cuLaunchKernel", meet, 1u, 1u, 1u, 2u, 1u, 1u, 0u, stream,
                         static_cast<void**>(parameters), static_cast<void**>(nullptr)),
                0);
  };
  start(streams[0], device, device + 1, device + 2);
  start(streams[1], device + 1, device, device + 4);
  start(streams[2], word, word + 1, device + 6);
  while (word[0] < 2) {
  }
  CHECK_EQUAL(gpu.cuda("cuStreamQuery", streams[2]), 600);
  word[1] = 2;
  for (void* stream : streams) {
    while (gpu.cuda("cuStreamQuery", stream) == 600) {
    }
  }
  gpu.read(zeros, device, sizeof(zeros));
  for (int i = 2; i < 8; ++i) CHECK_EQUAL(zeros[i], 120 + i % 2);
}

void check_shared_memory() {
  Gpu gpu(0);
  std::string image =
      compile("extern \"C\" __global__ void f() {}", {"--gpu-architecture=sm_99"}).image;
  void *module = nullptr, *function = nullptr;
  CHECK_EQUAL(gpu.cuda("cuModuleLoadData", &module, static_cast<const void*>(image.data())), 0);
  CHECK_EQUAL(gpu.cuda("cuModuleGetFunction", &function, module, "f"), 0);
  auto start = [&](unsigned bytes) {
    return gpu.cuda("cuLaunchKernel", function, 1u, 1u, 1u, 1u, 1u, 1u, bytes, gpu.stream,
                    static_cast<void**>(nullptr), static_cast<void**>(nullptr));
  };
  CHECK_EQUAL(start(49152), 0);
  CHECK_EQUAL(start(49153), kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuFuncSetAttribute", function, 8, 232449), kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuFuncSetAttribute", function, 8, -1), kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuFuncSetAttribute", function, 7, 0), kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuFuncSetAttribute", function, 8, 232448), 0);
  CHECK_EQUAL(start(232448), 0);
  CHECK_EQUAL(start(232449), kInvalidValue);
  gpu.wait();
}

}  // namespace

void kernel_checks() {
  run("what the compiler refuses", 1, [](int) { check_refusals(); });
  run("kernels", 1, [](int) { check_kernels(); });
  run("kernels that wait for each other", 1, [](int) { check_concurrent_kernels(); });
  run("shared memory of launches", 1, [](int) { check_shared_memory(); });
}

}  // namespace selftest
