#pragma once

// Drives the NCCL plug-in as NCCL does. The structures are those of NCCL's public headers, declared
// independently of the plug-in's.

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugin/event_log.hpp"
#include "tested_plugin.hpp"

namespace plugin_driver {

constexpr std::uint64_t kColl = 2, kKernelCh = 64, kP2pApi = 1024, kKernelLaunch = 2048,
                        kCeColl = 4096;

struct Coll {
  std::uint64_t seqNumber;
  const char* func;
  const void* sendBuff;
  void* recvBuff;
  std::size_t count;
  int root;
  const char* datatype;
  std::uint8_t nChannels, nWarps;
  const char *algo, *proto;
  void* parentGroup;
};
struct P2pApi {
  const char* func;
  std::size_t count;
  const char* datatype;
  void* stream;
  bool graphCaptured;
};
struct KernelLaunch {
  void* stream;
};
struct CeColl {
  std::uint64_t seqNumber;
  const char* func;
  const void* sendBuff;
  void* recvBuff;
  std::size_t count;
  int root;
  const char* datatype;
  const char* syncStrategy;
  bool intraBatchSync;
  std::uint32_t batchSize, numBatches, ceSeqNum;
  void* stream;
};

/// Of version 5 to 7.
struct Descriptor {
  std::uint64_t type;
  void* parentObj;
  int rank;
  union {
    Coll coll;
    P2pApi p2pApi;
    KernelLaunch kernelLaunch;
    CeColl ceColl;
  };
};

using Log = void (*)(int, unsigned long, const char*, int, const char*, ...);

struct Profiler {
  const char* name;
  int (*init)(void**, std::uint64_t, int*, const char*, int, int, int, Log);
  int (*start)(void*, void**, Descriptor*);
  int (*stop)(void*);
  int (*state)(void*, int, const std::uint64_t*);
  int (*finalize)(void*);
};

/// A variable of the environment while this exists.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

/// An empty directory, removed at the end.
class Directory {
 public:
  Directory() {
    char name[] = "/tmp/cclmark-plugin-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      found.push_back(entry.path());
    }
    return found;
  }

 private:
  std::string path_;
};

/// The plug-in as a process has it that has not used it before: a copy of the file, since the
/// log of an image is opened once. It stays loaded.
class Plugin {
 public:
  explicit Plugin(const Directory& directory) {
    static int copies = 0;
    const std::string copy = directory / ("plugin-" + std::to_string(++copies) + ".so");
    std::filesystem::copy_file(plugin_path(), copy);
    library_ = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
    unlink(copy.c_str());
    if (library_ == nullptr) {
      throw std::runtime_error(dlerror());
    }
  }
  /// nullptr if the version is not offered.
  const Profiler* profiler(int version) const {
    return static_cast<const Profiler*>(
        dlsym(library_, ("ncclProfiler_v" + std::to_string(version)).c_str()));
  }
  /// Why there is no log.
  std::string failure() const {
    const auto found =
        reinterpret_cast<const char* (*)()>(dlsym(library_, "cclmark_plugin_failure"));
    return found != nullptr ? found() : "no function";
  }

 private:
  void* library_;
};

/// A communicator of which the plug-in is informed while it exists.
class Communicator {
 public:
  explicit Communicator(const Profiler& profiler, Log log = nullptr, int ranks = 1, int rank = 0)
      : profiler_(profiler) {
    if (profiler.init(&context_, 42, &mask_, "name", 1, ranks, rank, log) != 0) {
      throw std::runtime_error("init failed");
    }
  }
  ~Communicator() { profiler_.finalize(context_); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int mask() const { return mask_; }
  /// Reports an event that begins and ends.
  void report(Descriptor event) const {
    void* handle = nullptr;
    profiler_.start(context_, &handle, &event);
    profiler_.stop(handle);
  }

 private:
  const Profiler& profiler_;
  void* context_ = nullptr;
  int mask_ = 0;
};

/// Reports `events` collectives. Each is one record; a second one is that of its end.
inline void report_collectives(const Communicator& communicator, int events) {
  for (int number = 0; number < events; ++number) {
    Descriptor event{};
    event.type = kColl;
    event.coll.func = "AllReduce";
    event.coll.datatype = "ncclFloat32";
    event.coll.algo = "RING";
    event.coll.proto = "LL";
    event.coll.nChannels = 1;
    communicator.report(event);
  }
}

/// What a log contains: its header and its records as far as the file reaches.
struct Contents {
  std::uint64_t bytes = 0;
  std::uint64_t claimed = 0, dropped = 0, unplaced = 0, capacity = 0;
  int growth_error = 0;
  std::vector<cclmark::plugin::Record> written;
  std::uint64_t empty = 0;  // places that were claimed and not written
};

inline Contents read_log(int descriptor) {
  using cclmark::plugin::LogHeader;
  using cclmark::plugin::Record;
  struct stat status{};
  REQUIRE(fstat(descriptor, &status) == 0);
  Contents found;
  found.bytes = static_cast<std::uint64_t>(status.st_size);
  std::vector<unsigned char> content(found.bytes);
  REQUIRE(pread(descriptor, content.data(), content.size(), 0) ==
          static_cast<ssize_t>(content.size()));
  REQUIRE(content.size() >= cclmark::plugin::kHeaderBytes);
  const auto number = [&](std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, content.data() + offset, sizeof value);
    return value;
  };
  found.capacity = number(offsetof(LogHeader, capacity));
  found.claimed = number(offsetof(LogHeader, claimed));
  found.dropped = number(offsetof(LogHeader, dropped));
  found.unplaced = number(offsetof(LogHeader, unplaced));
  std::memcpy(&found.growth_error, content.data() + offsetof(LogHeader, growth_error),
              sizeof found.growth_error);
  const std::uint64_t places = std::min(found.claimed, found.capacity);
  for (std::uint64_t index = 0; index < places; ++index) {
    const std::size_t at = cclmark::plugin::kHeaderBytes + index * sizeof(Record);
    Record record{};
    if (at + sizeof record <= content.size()) {
      std::memcpy(&record, content.data() + at, sizeof record);
    }
    if (record.kind != 0) {
      found.written.push_back(record);
    } else {
      ++found.empty;
    }
  }
  return found;
}

inline Contents read_log(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(descriptor >= 0);
  Contents found = read_log(descriptor);
  close(descriptor);
  return found;
}

/// Runs `work` in a child process. Returns its exit code, or a negative signal's number.
inline int result_of_child(const std::function<int()>& work) {
  std::cout.flush();  // the child must not print it again
  const pid_t child = fork();
  if (child == 0) {
    int code = 99;
    try {
      code = work();
    } catch (...) {
    }
    _exit(code);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace plugin_driver
