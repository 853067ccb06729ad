// The NCCL plug-in when it counts calls, called by several threads as NCCL does.

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "environment.hpp"
#include "plugin/call_profile.hpp"
#include "plugin/contexts.hpp"
#include "tested_plugin.hpp"

namespace {

using cclmark::Variable;
using cclmark::plugin::KernelTimes;
using cclmark::plugin::LogHeader;
using cclmark::plugin::Record;
using cclmark::plugin::RecordKind;

constexpr int kCollective = 2, kMessage = 4, kKernel = 64, kCollectiveCall = 512;
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
struct Message {
  const char* function;
  void* buffer;
  const char* datatype;
  std::size_t count;
  int peer;
  std::uint8_t channels;
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
    Message message;
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
  explicit Plugin(const char* events, std::uint64_t records = kRecords, const char* other = "none")
      : records_(records),
        log_(memfd_create("log", 0)),
        variables_{{{"CCLMARK_PLUGIN_LOG", "fd:" + std::to_string(log_)},
                    {"CCLMARK_PLUGIN_RECORDS", std::to_string(records)},
                    {"CCLMARK_PLUGIN_EVENTS", events},
                    {"CCLMARK_PLUGIN_RUN", "of this test"},
                    {"CCLMARK_PLUGIN_PROFILER", other}}} {
    static int number = 0;
    const std::filesystem::path copy =
        std::filesystem::temp_directory_path() /
        ("cclmark-plugin-" + std::to_string(getpid()) + "-" + std::to_string(++number) + ".so");
    std::filesystem::copy_file(plugin_path(), copy,
                               std::filesystem::copy_options::overwrite_existing);
    library_ = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
    std::filesystem::remove(copy);
    REQUIRE(library_ != nullptr);
    profiler_ = static_cast<const Profiler*>(dlsym(library_, "ncclProfiler_v5"));
    REQUIRE(profiler_ != nullptr);
    CHECK(profiler_->init(&context_, 7, &mask_, "name", 1, 2, 0, nullptr) == 0);
  }
  ~Plugin() {
    finalize();
    close(log_);
  }
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  int mask() const { return mask_; }

  /// The communicator ends. NCCL's proxy thread may report its events nevertheless.
  void finalize() {
    if (!is_finalized_) {
      is_finalized_ = true;
      profiler_->finalize(context_);
    }
  }

  void* start(Descriptor& event, int type, void* parent) {
    event.type = static_cast<std::uint64_t>(type);
    event.parent = parent;
    void* handle = nullptr;
    profiler_->start(context_, &handle, &event);
    CHECK(handle != nullptr);
    return handle;
  }

  void* call(std::size_t count, bool is_captured = false, void* stream = nullptr, int root = 0) {
    Descriptor event{};
    event.call = {"AllReduce", count, "ncclFloat32", root, stream, is_captured};
    void* handle = start(event, kCollectiveCall, nullptr);
    profiler_->stop(handle);
    return handle;
  }

  /// A message without a kernel.
  void send(std::size_t count, int peer) {
    Descriptor event{};
    event.message = {"Send", nullptr, "ncclFloat32", count, peer, 1, nullptr};
    profiler_->stop(start(event, kMessage, nullptr));
  }

  /// Its kernel ends on a channel after the other, each of which begins a bit later.
  void run(std::size_t count, void* called, std::uint64_t begin_ns = kBeginNs) {
    end_kernels(begin(count, called), begin_ns);
  }

  /// Returns the handle of a collective, whose kernel has not begun.
  void* begin(std::size_t count, void* called, int root = 0) {
    Descriptor event{};
    event.collective = {1,         "AllReduce", nullptr, nullptr, count,  root, "ncclFloat32",
                        kChannels, 16,          "RING",  "LL",    nullptr};
    void* collective = start(event, kCollective, called);
    profiler_->stop(collective);
    return collective;
  }

  /// The kernel of a collective.
  void end_kernels(void* collective, std::uint64_t begin_ns) {
    Descriptor event{};
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
    for (std::uint64_t index = 0; index < records_; ++index) {
      const auto place = cclmark::plugin::kHeaderBytes + index * sizeof record;
      if (pread(log_, &record, sizeof record, static_cast<off_t>(place)) == sizeof record &&
          record.kind == static_cast<std::uint32_t>(kind)) {
        found.push_back(record);
      }
    }
    return found;
  }

  std::uint64_t dropped() const { return header<std::uint64_t>(offsetof(LogHeader, dropped)); }

  /// A field of the log's header.
  template <typename Value>
  Value header(std::size_t offset) const {
    Value value{};
    pread(log_, &value, sizeof value, static_cast<off_t>(offset));
    return value;
  }

 private:
  std::uint64_t records_;
  int log_;
  std::array<Variable, 5> variables_;
  void* library_ = nullptr;
  const Profiler* profiler_ = nullptr;
  void* context_ = nullptr;
  int mask_ = 0;
  bool is_finalized_ = false;
};

/// Another plug-in, which writes what it receives to a file: a copy of the library, since an image
/// opens its file once.
class Other {
 public:
  explicit Other(const std::string& name)
      : prefix_((std::filesystem::temp_directory_path() / ("cclmark-" + name)).string()),
        library_(received() + ".so"),
        file_("CCLMARK_FAKE_OTHER_FILE", prefix_),
        mask_("CCLMARK_FAKE_OTHER_MASK", std::to_string(kCollective | kKernel)) {
    std::filesystem::copy_file(OTHER_PLUGIN, library_,
                               std::filesystem::copy_options::overwrite_existing);
  }
  ~Other() {
    std::filesystem::remove(library_);
    std::filesystem::remove(received());
  }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  const char* library() const { return library_.c_str(); }
  std::string received() const { return prefix_ + "-" + std::to_string(getpid()); }

 private:
  std::string prefix_, library_;
  Variable file_, mask_;
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

TEST_CASE("profile: a log has the run that the environment contains") {
  const Plugin plugin("profile");
  using Run = std::array<char, sizeof(LogHeader::run)>;
  CHECK(std::string(plugin.header<Run>(offsetof(LogHeader, run)).data()) == "of this test");
  CHECK(plugin.header<std::uint32_t>(offsetof(LogHeader, has_lost_parents)) == 0);
}

TEST_CASE("profile: peers and roots are those of calls, not of operations") {
  constexpr int kPeers = 300;
  Plugin plugin("profile", 2000);
  for (int peer = 0; peer < kPeers; ++peer) {
    plugin.send(64, peer);
    plugin.end_kernels(plugin.begin(32, plugin.call(32, false, nullptr, peer), peer), kBeginNs);
  }
  CHECK(plugin.records(RecordKind::called).size() == 1);
  const auto operations = plugin.records(RecordKind::operation);
  REQUIRE(operations.size() == 2);
  for (const Record& operation : operations) {
    CHECK(operation.sequence == kPeers);
    CHECK(operation.root == -1);
  }
  const auto calls = plugin.records(RecordKind::call);
  REQUIRE(calls.size() == 2 * kPeers);
  for (int number = 0; number < 2 * kPeers; ++number) {
    CHECK(calls[static_cast<std::size_t>(number)].root == number / 2);
  }
  CHECK(plugin.dropped() == 0);
}

TEST_CASE("profile: more distinct calls than the table contains are counted as lost") {
  constexpr std::uint64_t kMost = 3 << 13, kMore = 100;
  Plugin plugin("profile", 2 * kMost);
  for (std::uint64_t stream = 1; stream <= kMost + kMore; ++stream) {
    plugin.call(64, false, reinterpret_cast<void*>(stream));
  }
  CHECK(plugin.records(RecordKind::called).size() == kMost);
  CHECK(plugin.dropped() == kMore);
  CHECK(plugin.header<std::uint64_t>(offsetof(LogHeader, unplaced)) == kMore);
  CHECK(plugin.header<std::int32_t>(offsetof(LogHeader, growth_error)) == 0);
}

TEST_CASE("profile: events beside another plug-in that cannot be matched are reported") {
  const Other other("profile-pairs");
  const Variable pairs("CCLMARK_PLUGIN_PAIRS", "10");
  Plugin plugin("profile", kRecords, other.library());
  for (int number = 0; number < 2; ++number) {  // of five events each
    plugin.run(64, plugin.call(64));
  }
  CHECK(plugin.header<std::uint32_t>(offsetof(LogHeader, has_lost_parents)) == 0);
  for (int number = 0; number < 2; ++number) {
    plugin.run(64, plugin.call(64));
  }
  CHECK(plugin.header<std::uint32_t>(offsetof(LogHeader, has_lost_parents)) == 1);
}

TEST_CASE("profile: a proxy thread reports kernels of a communicator that is finalized") {
  Plugin plugin("profile");
  std::vector<void*> collectives;
  for (int number = 0; number < kThreads; ++number) {
    collectives.push_back(plugin.begin(64, plugin.call(64)));
  }
  plugin.finalize();
  std::thread proxy([&] {
    for (void* collective : collectives) {
      plugin.end_kernels(collective, kBeginNs);
    }
  });
  proxy.join();
  const auto times = plugin.records(RecordKind::kernel_times);
  REQUIRE(times.size() == 1);
  CHECK(times_of(times)[0]->calls == kThreads);
}

TEST_CASE("profile: the other plug-in receives no event of a communicator after its finalize") {
  const Other other("profile-finalize");
  Plugin plugin("profile", kRecords, other.library());
  void* collective = plugin.begin(64, plugin.call(64));
  std::thread proxy([&] {
    for (int number = 0; number < kCalls; ++number) {
      plugin.end_kernels(collective, kBeginNs);
    }
  });
  plugin.finalize();
  proxy.join();
  plugin.end_kernels(collective, kBeginNs);
  int finalized = 0, later = 0;
  std::ifstream file(other.received());
  for (std::string line; std::getline(file, line);) {
    later += finalized != 0 && line.rfind("start", 0) == 0 ? 1 : 0;
    finalized += line.rfind("finalize", 0) == 0 ? 1 : 0;
  }
  CHECK(finalized == 1);
  CHECK(later == 0);
}

TEST_CASE("contexts: an ended one keeps its content until many more have ended") {
  using cclmark::plugin::Context;
  using cclmark::plugin::Contexts;
  constexpr std::uint64_t kKept = 1 << 16;
  Contexts& contexts = Contexts::instance();
  Context* const first = contexts.make();
  first->communicator = 1;
  contexts.keep(first);
  for (std::uint64_t number = 2; number <= kKept; ++number) {
    Context* const next = contexts.make();
    next->communicator = number;
    contexts.keep(next);
  }
  CHECK(first->communicator == 1);
  Context* const fresh = contexts.make();
  CHECK(fresh != first);
  contexts.keep(fresh);
  Context* const reused = contexts.make();
  CHECK(reused == first);  // the oldest: memory is bounded
  contexts.keep(reused);
}
