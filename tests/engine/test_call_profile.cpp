// The NCCL plug-in when it counts calls, called by several threads as NCCL does.

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "environment.hpp"
#include "plugin/call_profile.hpp"

namespace {

using cclmark::Variable;
using cclmark::plugin::KernelTimes;
using cclmark::plugin::LogHeader;
using cclmark::plugin::Record;
using cclmark::plugin::RecordKind;

constexpr int kCollective = 2, kKernel = 64, kCollectiveCall = 512;
constexpr int kThreads = 4, kCalls = 500, kChannels = 3;
constexpr std::uint64_t kRecords = 100;  // half of them for calls
constexpr std::uint64_t kBeginNs = 1000, kTimeNs = 40;

// The interface as NCCL's public header has it.
struct Collective {
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
};
struct Call {
  const char* function;
  std::size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool is_captured;
};
struct Kernel {
  std::uint8_t channel;
  std::uint64_t time_ns;
};
struct Descriptor {
  std::uint64_t type;
  void* parent;
  int rank;
  union {
    Collective collective;
    Call call;
    Kernel kernel;
  };
};
struct Profiler {
  const char* name;
  int (*init)(void**, std::uint64_t, int*, const char*, int, int, int, void*);
  int (*start)(void*, void**, Descriptor*);
  int (*stop)(void*);
  int (*state)(void*, int, const std::uint64_t*);
  int (*finalize)(void*);
};

/// Each test loads its own copy: the plug-in reads the environment once.
class Plugin {
 public:
  explicit Plugin(const char* events)
      : log_(memfd_create("log", 0)),
        variables_{{{"CCLMARK_PLUGIN_LOG", "fd:" + std::to_string(log_)},
                    {"CCLMARK_PLUGIN_RECORDS", std::to_string(kRecords)},
                    {"CCLMARK_PLUGIN_EVENTS", events},
                    {"CCLMARK_PLUGIN_PROFILER", "none"}}} {
    static int number = 0;
    const std::filesystem::path copy =
        std::filesystem::temp_directory_path() /
        ("cclmark-plugin-" + std::to_string(getpid()) + "-" + std::to_string(++number) + ".so");
    std::filesystem::copy_file(PLUGIN, copy, std::filesystem::copy_options::overwrite_existing);
    library_ = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
    std::filesystem::remove(copy);
    REQUIRE(library_ != nullptr);
    profiler_ = static_cast<const Profiler*>(dlsym(library_, "ncclProfiler_v5"));
    REQUIRE(profiler_ != nullptr);
    CHECK(profiler_->init(&context_, 7, &mask_, "name", 1, 2, 0, nullptr) == 0);
  }
  ~Plugin() {
    profiler_->finalize(context_);
    close(log_);
  }
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  int mask() const { return mask_; }

  void* start(Descriptor& event, int type, void* parent) {
    event.type = static_cast<std::uint64_t>(type);
    event.parent = parent;
    void* handle = nullptr;
    profiler_->start(context_, &handle, &event);
    CHECK(handle != nullptr);
    return handle;
  }

  void* call(std::size_t count, bool is_captured = false) {
    Descriptor event{};
    event.call = {"AllReduce", count, "ncclFloat32", 0, &log_, is_captured};
    void* handle = start(event, kCollectiveCall, nullptr);
    profiler_->stop(handle);
    return handle;
  }

  /// Its kernel ends on a channel after the other, each of which begins a bit later.
  void run(std::size_t count, void* called, std::uint64_t begin_ns = kBeginNs) {
    Descriptor event{};
    event.collective = {1,         "AllReduce", nullptr, nullptr, count,  0, "ncclFloat32",
                        kChannels, 16,          "RING",  "LL",    nullptr};
    void* collective = start(event, kCollective, called);
    profiler_->stop(collective);
    std::array<void*, kChannels> kernels{};
    for (std::uint8_t channel = 0; channel < kChannels; ++channel) {
      event.kernel = {channel, begin_ns + channel};
      kernels[channel] = start(event, kKernel, collective);
    }
    for (std::uint8_t channel = 0; channel < kChannels; ++channel) {
      const std::uint64_t end_ns = begin_ns + kTimeNs - channel;
      profiler_->state(kernels[channel], 22, &end_ns);
      profiler_->stop(kernels[channel]);
    }
  }

  std::vector<Record> records(RecordKind kind) const {
    std::vector<Record> found;
    Record record{};
    for (std::uint64_t index = 0; index < kRecords; ++index) {
      const auto place = cclmark::plugin::kHeaderBytes + index * sizeof record;
      if (pread(log_, &record, sizeof record, static_cast<off_t>(place)) == sizeof record &&
          record.kind == static_cast<std::uint32_t>(kind)) {
        found.push_back(record);
      }
    }
    return found;
  }

  std::uint64_t dropped() const {
    std::uint64_t value = 0;
    pread(log_, &value, sizeof value, offsetof(LogHeader, dropped));
    return value;
  }

 private:
  int log_;
  std::array<Variable, 4> variables_;
  void* library_ = nullptr;
  const Profiler* profiler_ = nullptr;
  void* context_ = nullptr;
  int mask_ = 0;
};

std::vector<const KernelTimes*> times_of(const std::vector<Record>& records) {
  std::vector<const KernelTimes*> found;
  for (const Record& record : records) {
    found.push_back(reinterpret_cast<const KernelTimes*>(&record));
  }
  return found;
}

}  // namespace

TEST_CASE("profile: totals are complete also where the list of calls is full") {
  Plugin plugin("profile");
  CHECK((plugin.mask() & kKernel) != 0);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&plugin] {
      for (int number = 0; number < kCalls; ++number) {
        plugin.run(256, plugin.call(256));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const auto called = plugin.records(RecordKind::called);
  const auto operations = plugin.records(RecordKind::operation);
  const auto times = plugin.records(RecordKind::kernel_times);
  REQUIRE(called.size() == 1);
  CHECK(called[0].sequence == kThreads * kCalls);
  CHECK(called[0].parent == 0);  // none was captured
  REQUIRE(operations.size() == 1);
  CHECK(operations[0].sequence == kThreads * kCalls);
  REQUIRE(times.size() == 1);
  const KernelTimes& sums = *times_of(times)[0];
  CHECK(sums.calls == kThreads * kCalls);
  CHECK(sums.total_ns == kThreads * kCalls * kTimeNs);
  CHECK(sums.least_ns == kTimeNs);
  CHECK(sums.most_ns == kTimeNs);
  CHECK(sums.elements == kThreads * kCalls * 256);
  const auto calls = plugin.records(RecordKind::call);
  CHECK(calls.size() == kRecords / 2);
  for (const Record& call : calls) {
    CHECK(call.device_ns == kBeginNs);
    CHECK(call.count == kBeginNs + kTimeNs);
  }
  CHECK(plugin.dropped() == 0);
}

TEST_CASE("profile: the launches of a captured graph count, not its capture") {
  Plugin plugin("profile");
  void* captured = plugin.call(64, true);
  for (int launch = 0; launch < 3; ++launch) {
    plugin.run(64, captured, kBeginNs * (launch + 1));
  }
  const auto called = plugin.records(RecordKind::called);
  REQUIRE(called.size() == 1);
  CHECK(called[0].sequence == 0);
  CHECK(called[0].parent == 1);
  const auto operations = plugin.records(RecordKind::operation);
  REQUIRE(operations.size() == 1);
  CHECK(operations[0].sequence == 3);
  CHECK(operations[0].parent != 0);
}

TEST_CASE("profile: counts need no kernels") {
  Plugin plugin("counts");
  CHECK((plugin.mask() & kKernel) == 0);
  CHECK((plugin.mask() & kCollective) != 0);
}

TEST_CASE("profile: what does not fit is counted") {
  Plugin plugin("profile");
  for (std::size_t count = 1; count <= 2 * kRecords; ++count) {
    plugin.run(count, nullptr);
  }
  std::uint64_t recorded = 0;
  for (const Record& operation : plugin.records(RecordKind::operation)) {
    recorded += operation.sequence;
  }
  CHECK(recorded < 2 * kRecords);
  CHECK(plugin.dropped() >= 2 * kRecords - recorded);
}
