// The NCCL plug-in beside another one, called by several threads as NCCL does.

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "environment.hpp"
#include "tested_plugin.hpp"

namespace {

using cclmark::Variable;

constexpr int kCollective = 2, kPointToPoint = 4, kProxy = 8, kKernel = 64;
constexpr int kThreads = 4, kEvents = 500;
constexpr int kRecords = 1000;  // the log becomes full

// The interface as NCCL's public header has it.
struct Descriptor {
  std::uint64_t type;
  void* parent;
  int rank;
  struct {
    std::uint64_t sequence;
    const char* function;
    const void* send;
    void* receive;
    std::size_t count;
    int root;
    const char* datatype;
    std::uint8_t channels, warps;
    const char *algorithm, *protocol;
    void* parent_group;
  } collective;
};

struct Profiler {
  const char* name;
  int (*init)(void**, std::uint64_t, int*, const char*, int, int, int, void*);
  int (*start)(void*, void**, Descriptor*);
  int (*stop)(void*);
  int (*state)(void*, int, const std::uint64_t*);
  int (*finalize)(void*);
};

void* start(const Profiler& profiler, void* context, int type, void* parent) {
  Descriptor event{};
  event.type = static_cast<std::uint64_t>(type);
  event.parent = parent;
  if (type == kCollective) {
    event.collective.function = "AllReduce";
    event.collective.algorithm = "RING";
    event.collective.protocol = "LL";
    event.collective.datatype = "ncclInt8";
    event.collective.parent_group = parent;
  }
  void* handle = nullptr;
  profiler.start(context, &handle, &event);
  return handle;
}

/// A rank's events: collectives with one kernel each, which outlives its collective.
void drive(const Profiler& profiler, void* context, std::atomic<int>& without_handle) {
  void* previous = nullptr;
  for (int number = 0; number < kEvents; ++number) {
    void* collective = start(profiler, context, kCollective, previous);
    profiler.stop(collective);
    void* kernel = start(profiler, context, kKernel, collective);
    const std::uint64_t time_ns = 7;
    profiler.state(kernel, 22, &time_ns);
    profiler.stop(kernel);
    without_handle += collective == nullptr || kernel == nullptr ? 1 : 0;
    previous = collective;
  }
}

}  // namespace

TEST_CASE("plug-in: the other one receives all events of all threads with its own handles") {
  const int log = memfd_create("log", 0);
  const std::string prefix = "/tmp/cclmark-other-plugin";
  const std::string received = prefix + "-" + std::to_string(getpid());
  const Variable variables[] = {
      {"CCLMARK_PLUGIN_LOG", "fd:" + std::to_string(log)},
      {"CCLMARK_PLUGIN_RECORDS", std::to_string(kRecords)},
      {"CCLMARK_PLUGIN_PROFILER", OTHER_PLUGIN},
      {"CCLMARK_FAKE_OTHER_FILE", prefix},
      {"CCLMARK_FAKE_OTHER_MASK", std::to_string(kCollective | kKernel)},
      {"CCLMARK_FAKE_OTHER_AFTER", "1000"},
      {"CCLMARK_FAKE_OTHER_THEN", std::to_string(kCollective | kKernel | kProxy)},
  };
  void* library = dlopen(plugin_path(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  const auto* profiler = static_cast<const Profiler*>(dlsym(library, "ncclProfiler_v5"));
  REQUIRE(profiler != nullptr);
  int mask = 0;
  std::array<void*, kThreads> contexts{};
  for (void*& context : contexts) {
    CHECK(profiler->init(&context, 1, &mask, "name", 1, 1, 0, nullptr) == 0);
  }
  // The union: this plug-in asks for collectives and messages.
  CHECK((mask & kKernel) != 0);
  CHECK((mask & kPointToPoint) != 0);
  CHECK((mask & kProxy) == 0);
  std::atomic<int> without_handle{0};
  std::vector<std::thread> threads;
  for (void* context : contexts) {
    threads.emplace_back([&, context] { drive(*profiler, context, without_handle); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (void* context : contexts) {
    CHECK(profiler->finalize(context) == 0);
  }
  CHECK(without_handle == 0);
  CHECK((mask & kPointToPoint) != 0);
  CHECK((mask & kProxy) != 0);
  int starts = 0, stops = 0, states = 0, errors = 0, without_parent = 0;
  std::ifstream file(received);
  for (std::string line; std::getline(file, line);) {
    starts += line.rfind("start", 0) == 0 ? 1 : 0;
    stops += line.rfind("stop", 0) == 0 ? 1 : 0;
    states += line.rfind("state", 0) == 0 ? 1 : 0;
    errors += line.find("ERROR") != std::string::npos ? 1 : 0;
    without_parent += line.find(" in 0") != std::string::npos ? 1 : 0;
  }
  unlink(received.c_str());
  close(log);
  CHECK(starts == 2 * kThreads * kEvents);
  CHECK(stops == starts);
  CHECK(states == kThreads * kEvents);
  CHECK(errors == 0);
  CHECK(without_parent == kThreads);  // the first collective of each thread
}
