// The log of the NCCL plug-in under conditions that must neither end nor delay the program: limits,
// full disks, files that exist already. And which events and versions it supports.

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "plugin_driver.hpp"

namespace {

using namespace plugin_driver;
using cclmark::plugin::kHeaderBytes;
using cclmark::plugin::Record;
using cclmark::plugin::RecordKind;

// A disk with limited space: the size up to which files can grow.
std::atomic<std::uint64_t> disk_bytes{UINT64_MAX};
std::atomic<int> refusals{0};
std::atomic<int> interruptions{0};  // by signals, before the next growth

std::string own_name(const std::string& prefix, const std::string& suffix = "") {
  char host[64] = "";
  gethostname(host, sizeof host - 1);
  return prefix + "-" + host + "-" + std::to_string(getpid()) + suffix + ".cclmlog";
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool redirect_errors(const char* path) {
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  return file >= 0 && dup2(file, STDERR_FILENO) >= 0;
}

/// As NCCL's logger below NCCL_DEBUG=WARN.
void log_nothing(int, unsigned long, const char*, int, const char*, ...) {}

int count(const Contents& contents, RecordKind kind) {
  return static_cast<int>(std::count_if(
      contents.written.begin(), contents.written.end(),
      [&](const Record& one) { return one.kind == static_cast<std::uint32_t>(kind); }));
}

}  // namespace

/// In place of libc's, also for the plug-in, which is loaded later.
extern "C" __attribute__((visibility("default"))) int posix_fallocate(int file, off_t offset,
                                                                      off_t length) {
  if (interruptions > 0) {
    --interruptions;
    return EINTR;
  }
  if (static_cast<std::uint64_t>(offset + length) > disk_bytes) {
    ++refusals;
    return ENOSPC;
  }
  static const auto real =
      reinterpret_cast<int (*)(int, off_t, off_t)>(dlsym(RTLD_NEXT, "posix_fallocate"));
  return real(file, offset, length);
}

TEST_CASE("plug-in log: a limit on the size of files ends the log, not the program") {
  const Directory directory;
  const Variable name("CCLMARK_PLUGIN_LOG", directory / "log");
  constexpr int kEvents = 20'000;
  constexpr rlim_t kMostBytes = 1'000'000;
  const int result = result_of_child([&] {
    const rlimit limit{kMostBytes, RLIM_INFINITY};
    const Plugin plugin(directory);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    const Profiler& profiler = *plugin.profiler(5);
    report_collectives(Communicator(profiler), kEvents);
    return 0;
  });
  CHECK(result == 0);
  REQUIRE(directory.files().size() == 1);
  const Contents log = read_log(directory.files().front());
  CHECK(log.bytes <= kMostBytes);
  CHECK(log.bytes > kMostBytes - 2 * 4096);
  CHECK(log.growth_error == EFBIG);
  CHECK(log.claimed + log.unplaced == log.written.size() + log.dropped);
  CHECK(log.dropped > 0);
}

TEST_CASE("plug-in log: without space for its first page there is none, and the reason is known") {
  const Directory directory;
  const Variable name("CCLMARK_PLUGIN_LOG", directory / "log");
  const int result = result_of_child([&] {
    const Plugin plugin(directory);
    const rlimit limit{100, RLIM_INFINITY};
    if (!redirect_errors("/dev/null") || !plugin.failure().empty() ||
        setrlimit(RLIMIT_FSIZE, &limit) != 0)
      return 2;
    const Profiler& profiler = *plugin.profiler(5);
    report_collectives(Communicator(profiler, log_nothing), 10);
    const bool is_named = plugin.failure().find("cannot write /tmp") == 0 &&
                          plugin.failure().find("File too large") != std::string::npos;
    return is_named ? 0 : 3;
  });
  CHECK(result == 0);
  CHECK(directory.files().empty());
}

TEST_CASE("plug-in log: a file that exists already is left as it is") {
  const Directory directory;
  const Variable name("CCLMARK_PLUGIN_LOG", directory / "log");
  const std::string others = own_name(directory / "log");
  std::ofstream(others) << "of another process";
  for (const int number : {2, 3}) {
    const Plugin plugin(directory);
    const Profiler& profiler = *plugin.profiler(5);
    report_collectives(Communicator(profiler), number);
  }
  CHECK(text_of(others) == "of another process");
  CHECK(count(read_log(own_name(directory / "log", "-2")), RecordKind::collective) == 2);
  CHECK(count(read_log(own_name(directory / "log", "-3")), RecordKind::collective) == 3);
}

TEST_CASE("plug-in log: the file is as long as its records") {
  const Directory directory;
  const Variable name("CCLMARK_PLUGIN_LOG", directory / "log");
  const Plugin plugin(directory);
  const Profiler& profiler = *plugin.profiler(5);
  const Communicator communicator(profiler);
  const std::string path = own_name(directory / "log");
  report_collectives(communicator, 10);
  CHECK(read_log(path).bytes == kHeaderBytes + 32 * sizeof(Record));
  report_collectives(communicator, 10'000);
  const Contents log = read_log(path);
  CHECK(log.written.size() == 2 * 10'010 + 1);
  CHECK(log.bytes < kHeaderBytes + (log.written.size() + (1 << 13)) * sizeof(Record));
}

TEST_CASE("plug-in log: a full disk costs a few attempts, and events follow when it has space") {
  const Directory directory;
  const Variable name("CCLMARK_PLUGIN_LOG", directory / "log");
  const Plugin plugin(directory);
  const Profiler& profiler = *plugin.profiler(5);
  const Communicator communicator(profiler);
  constexpr std::uint64_t kPlaces = 3 * 32;
  disk_bytes = kHeaderBytes + kPlaces * sizeof(Record);
  refusals = 0;
  const auto begin_time = std::chrono::steady_clock::now();
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&] { report_collectives(communicator, 10'000); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_time;
  const int retries = static_cast<int>(elapsed.count());  // one each second
  CHECK(refusals <= 10 + retries);                        // at first of halves of the piece
  const std::string path = own_name(directory / "log");
  const Contents full = read_log(path);
  CHECK(full.written.size() == kPlaces);
  CHECK(full.growth_error == ENOSPC);
  CHECK(full.claimed + full.unplaced == full.written.size() + full.dropped);
  disk_bytes = UINT64_MAX;
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  report_collectives(communicator, 100);
  const Contents log = read_log(path);
  CHECK(log.written.size() == kPlaces + 200);
  CHECK(log.empty >= 1);  // marks the gap
  CHECK(log.empty <= static_cast<std::uint64_t>(kThreads * (2 + retries)));
  CHECK(log.claimed + log.unplaced == log.written.size() + log.dropped);
}

TEST_CASE("plug-in log: signals do not count as a full disk") {
  const Directory directory;
  const Variable name("CCLMARK_PLUGIN_LOG", directory / "log");
  const Plugin plugin(directory);
  const Profiler& profiler = *plugin.profiler(5);
  const Communicator communicator(profiler);
  interruptions = 3;
  report_collectives(communicator, 50);
  CHECK(interruptions == 0);
  CHECK(read_log(own_name(directory / "log")).dropped == 0);
}

TEST_CASE(
    "plug-in log: a log that cannot be written is reported once, also below NCCL_DEBUG=WARN") {
  const Directory directory;
  const std::string output = directory / "stderr";
  const Variable name("CCLMARK_PLUGIN_LOG", "/nowhere/log");
  const int result = result_of_child([&] {
    if (!redirect_errors(output.c_str())) return 2;
    const Plugin plugin(directory);
    const Profiler& profiler = *plugin.profiler(5);
    for (const int events : {1, 2}) {
      report_collectives(Communicator(profiler, log_nothing), events);
    }
    return plugin.failure().find("cannot create /nowhere/log") == 0 ? 0 : 3;
  });
  CHECK(result == 0);
  const std::string text = text_of(output);
  CHECK(text.find("cclmark's plug-in records nothing: cannot create /nowhere/log") == 0);
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
}

TEST_CASE("plug-in: version 7 is offered to NVIDIA's library from 2.31 on") {
  const Directory directory;
  const auto offers_v7_with = [&](const char* library, const char* version) {
    return result_of_child([&] {
      setenv("CCLMARK_FAKE_NCCL_VERSION", version, 1);
      if (*library != '\0' && dlopen(library, RTLD_NOW | RTLD_LOCAL) == nullptr) return 2;
      const Plugin plugin(directory);
      if (plugin.profiler(6) == nullptr) return 3;
      return plugin.profiler(7) != nullptr ? 1 : 0;
    });
  };
  CHECK(offers_v7_with("", "23102") == 0);  // an unknown library
  CHECK(offers_v7_with(FAKE_NCCL, "23102") == 1);
  CHECK(offers_v7_with(FAKE_NCCL, "23003") == 0);
  CHECK(offers_v7_with(FAKE_RCCL, "23102") == 0);
}

TEST_CASE("plug-in: calls, launches and copy-engine collectives are recorded") {
  for (const int version : {5, 6}) {
    CAPTURE(version);
    const Directory directory;
    const int file = memfd_create("log", 0);
    const Variable name("CCLMARK_PLUGIN_LOG", "fd:" + std::to_string(file));
    const Plugin plugin(directory);
    const Profiler& profiler = *plugin.profiler(version);
    const Communicator communicator(profiler, log_nothing, 2, 1);
    const int mask = communicator.mask();
    CHECK((mask & kP2pApi) != 0);
    CHECK((mask & kKernelLaunch) != 0);
    CHECK(((mask & kCeColl) != 0) == (version >= 6));
    char stream = 0;
    Descriptor call{};
    call.type = kP2pApi;
    call.p2pApi = {"Send", 1000, "ncclBfloat16", &stream, true};
    communicator.report(call);
    Descriptor launch{};
    launch.type = kKernelLaunch;
    launch.kernelLaunch = {&stream};
    communicator.report(launch);
    Descriptor copies{};
    copies.type = kCeColl;
    copies.ceColl = {9,         "AllGather", nullptr, nullptr, 2000, 3,      "ncclFloat16",
                     "barrier", true,        4,       5,       6,    &stream};
    communicator.report(copies);
    const Contents log = read_log(file);
    close(file);
    REQUIRE(log.written.size() == (version >= 6 ? 7 : 5));  // the communicator, and two of each
    const Record& send = log.written[1];
    CHECK(send.kind == static_cast<std::uint32_t>(RecordKind::point_to_point_call));
    CHECK(std::string(send.function) == "Send");
    CHECK(std::string(send.datatype) == "ncclBfloat16");
    CHECK(send.count == 1000);
    CHECK(send.rank == 1);
    CHECK(log.written[3].kind == static_cast<std::uint32_t>(RecordKind::kernel_launch));
    if (version >= 6) {
      const Record& gather = log.written[5];
      CHECK(gather.kind == static_cast<std::uint32_t>(RecordKind::copy_engine_collective));
      CHECK(gather.sequence == 9);
      CHECK(std::string(gather.function) == "AllGather");
      CHECK(std::string(gather.datatype) == "ncclFloat16");
      CHECK(std::string(gather.algorithm) == "barrier");
      CHECK(gather.count == 2000);
      CHECK(gather.root == 3);
    }
  }
}
