// The tuner table of the NCCL plug-in, by the interfaces that NCCL calls.

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tested_plugin.hpp"

namespace {

using Log = void (*)(int, unsigned long, const char*, int, const char*, ...);
using Cells = std::array<float, 24>;  // up to 8 algorithms

constexpr int kBroadcast = 0, kAllReduce = 4;
constexpr int kTree = 0, kRing = 1, kLl128 = 1, kSimple = 2;
constexpr int kProtocols = 3;
constexpr int kInvalidUsage = 5, kWarning = 2;

// The interfaces as NCCL's public headers have them.
struct TunerV2 {
  const char* name;
  int (*init)(std::size_t, std::size_t, Log, void**);
  int (*get)(void*, int, std::size_t, int, int, int, int*, int*, int*);
  int (*destroy)(void*);
};
struct TunerV5 {
  const char* name;
  int (*init)(void**, std::uint64_t, std::size_t, std::size_t, Log, void*, void*);
  int (*get)(void*, int, std::size_t, int, float**, int, int, int, int*);
  int (*finalize)(void*);
};

int warnings = 0;
std::string last_warning;

void log(int level, unsigned long, const char*, int, const char* format, ...) {
  if (level != kWarning) {
    return;
  }
  std::array<char, 8192> text{};
  va_list values;
  va_start(values, format);
  std::vsnprintf(text.data(), text.size(), format, values);
  va_end(values);
  ++warnings;
  last_warning = text.data();
}

/// A copy of the plug-in with separate state, and a table for it.
class Bench {
 public:
  Bench()
      : directory_(std::filesystem::temp_directory_path() / name()), log_(memfd_create("log", 0)) {
    std::filesystem::create_directory(directory_);
    std::filesystem::copy_file(plugin_path(), directory_ / "plugin.so");
    set("CCLMARK_PLUGIN_LOG", "fd:" + std::to_string(log_));
    set("CCLMARK_PLUGIN_TUNER", "none");
    set("CCLMARK_TUNER_ANYWHERE", "1");
    set("CCLMARK_TUNER_TABLE", (directory_ / "table").string());
    library_ = dlopen((directory_ / "plugin.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library_ != nullptr);
    warnings = 0;
  }
  ~Bench() {
    for (const std::string& variable : set_) {
      unsetenv(variable.c_str());
    }
    std::filesystem::remove_all(directory_);
    close(log_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void set(const std::string& variable, const std::string& value) {
    setenv(variable.c_str(), value.c_str(), 1);
    set_.push_back(variable);
  }

  void write(const std::string& rules) {
    std::ofstream(directory_ / "table")
        << "cclmark-tuner-table 1\nlibrary nccl 2.28.9\ndevice any\nnvlinks any\n"
        << rules << "end\n";
  }

  template <typename Interface>
  const Interface& interface(const char* symbol) const {
    const auto* found = static_cast<const Interface*>(dlsym(library_, symbol));
    REQUIRE(found != nullptr);
    return *found;
  }

  const TunerV5& tuner() const { return interface<TunerV5>("ncclTunerPlugin_v5"); }

  /// A communicator of two ranks.
  void* begin() const {
    void* context = nullptr;
    CHECK(tuner().init(&context, 1, 2, 1, log, nullptr, nullptr) == 0);
    return context;
  }

 private:
  static std::string name() {
    static int number = 0;
    return "cclmark-tuner-" + std::to_string(getpid()) + "-" + std::to_string(++number);
  }

  const std::filesystem::path directory_;
  const int log_;
  std::vector<std::string> set_;
  void* library_ = nullptr;
};

/// A call of NCCL, with what it gets back.
struct TunerCall {
  Cells cells;
  int algorithms = 7;
  int protocols = kProtocols;
  int channels = 0;

  TunerCall() { cells.fill(5.0F); }

  int ask(const TunerV5& tuner, void* context, int function, std::size_t bytes) {
    return tuner.get(context, function, bytes, 1, reinterpret_cast<float**>(cells.data()),
                     algorithms, protocols, 0, &channels);
  }
  float& at(int algorithm, int protocol) {
    return cells.at(static_cast<std::size_t>(algorithm * protocols + protocol));
  }
  /// How many cells are other than before.
  long changed() const { return 24 - std::count(cells.begin(), cells.end(), 5.0F); }
};

}  // namespace

TEST_CASE("tuner table: a rule sets one cell to 0 and nothing else") {
  Bench bench;
  bench.write("all_reduce 2 1 100 200 ring ll128 6\nall_reduce 2 1 201 300 tree simple 0\n");
  void* context = bench.begin();
  TunerCall call;
  CHECK(call.ask(bench.tuner(), context, kAllReduce, 100) == 0);
  CHECK(call.at(kRing, kLl128) == 0.0F);
  CHECK(call.changed() == 1);
  CHECK(call.channels == 6);
  TunerCall kept;
  kept.channels = 3;
  CHECK(kept.ask(bench.tuner(), context, kAllReduce, 300) == 0);
  CHECK(kept.at(kTree, kSimple) == 0.0F);
  CHECK(kept.channels == 3);
  for (const auto& [function, bytes] :
       {std::pair{kAllReduce, 99}, {kAllReduce, 301}, {kBroadcast, 150}}) {
    TunerCall other;
    CHECK(other.ask(bench.tuner(), context, function, static_cast<std::size_t>(bytes)) == 0);
    CHECK(other.changed() == 0);
    CHECK(other.channels == 0);
  }
  CHECK(warnings == 0);
  CHECK(bench.tuner().finalize(context) == 0);
}

TEST_CASE("tuner table: the numbers of algorithms and protocols are the library's") {
  Bench bench;
  bench.write("all_reduce 2 1 0 100 ring simple 6\nall_reduce 2 1 101 200 nvls_tree simple 6\n");
  void* context = bench.begin();
  TunerCall eight;
  eight.algorithms = 8;
  CHECK(eight.ask(bench.tuner(), context, kAllReduce, 1) == 0);
  CHECK(eight.at(kRing, kSimple) == 0.0F);
  TunerCall two;  // protocols
  two.protocols = 2;
  CHECK(two.ask(bench.tuner(), context, kAllReduce, 1) == 0);
  CHECK(two.changed() == 0);
  CHECK(two.channels == 0);
  TunerCall five;  // algorithms
  five.algorithms = 5;
  CHECK(five.ask(bench.tuner(), context, kAllReduce, 150) == 0);
  CHECK(five.changed() == 0);
  TunerCall huge;  // is not read
  huge.algorithms = 1 << 20;
  CHECK(huge.ask(bench.tuner(), context, kAllReduce, 1) == 0);
  CHECK(huge.changed() == 0);
  CHECK(bench.tuner().finalize(context) == 0);
}

TEST_CASE("tuner table: what is not available is reported once") {
  Bench bench;
  bench.write("all_reduce 2 1 0 100 ring simple 6\n");
  void* context = bench.begin();
  for (int number = 0; number < 3; ++number) {
    TunerCall call;
    call.at(kRing, kSimple) = -1.0F;
    CHECK(call.ask(bench.tuner(), context, kAllReduce, 1) == 0);
    CHECK(call.at(kRing, kSimple) == -1.0F);
    CHECK(call.changed() == 1);
    CHECK(call.channels == 0);
  }
  CHECK(warnings == 1);
  CHECK(last_warning.find("line 5 of the tuner table: all_reduce has no ring simple") !=
        std::string::npos);
  CHECK(bench.tuner().finalize(context) == 0);
}

TEST_CASE("tuner table: the oldest interface sets both numbers") {
  Bench bench;
  bench.write(
      "all_reduce 2 1 0 100 ring ll128 6\nall_reduce 2 1 101 200 nvls simple 0\n"
      "all_reduce 2 1 201 300 collnet_direct simple 0\nall_gather 2 1 0 100 pat simple 0\n");
  const auto& tuner = bench.interface<TunerV2>("ncclTunerPlugin_v2");
  void* context = nullptr;
  REQUIRE(tuner.init(2, 1, log, &context) == 0);
  const auto choice = [&](int function, std::size_t bytes, int collnet, int nvls) {
    std::array<int, 3> found = {-1, -1, 0};
    CHECK(tuner.get(context, function, bytes, collnet, nvls, 1, &found[0], &found[1], &found[2]) ==
          0);
    return found;
  };
  using Found = std::array<int, 3>;
  constexpr Found kNone = {-1, -1, 0};
  CHECK(choice(kAllReduce, 50, 0, 0) == Found{kRing, kLl128, 6});
  CHECK(choice(kAllReduce, 150, 1, 0) == kNone);
  CHECK(choice(kAllReduce, 150, 0, 1) == Found{4, kSimple, 0});
  CHECK(choice(kAllReduce, 250, 0, 1) == kNone);
  CHECK(choice(kAllReduce, 250, 1, 0) == Found{2, kSimple, 0});
  CHECK(choice(2, 50, 1, 1) == kNone);  // has no pat yet
  CHECK(warnings == 3);
  CHECK(tuner.destroy(context) == 0);
}

TEST_CASE("tuner table: rules are of groups") {
  Bench bench;
  bench.write(
      "all_reduce 4 1 0 100 ring simple 1\nall_reduce 4 2 0 100 ring simple 2\n"
      "all_reduce 8 2 0 100 ring simple 3\n");
  using Group = std::array<std::size_t, 2>;
  const auto channels = [&](Group group) {
    void* context = nullptr;
    CHECK(bench.tuner().init(&context, 1, group[0], group[1], log, nullptr, nullptr) == 0);
    TunerCall call;
    CHECK(call.ask(bench.tuner(), context, kAllReduce, 1) == 0);
    CHECK(call.changed() == (call.channels == 0 ? 0 : 1));
    CHECK(bench.tuner().finalize(context) == 0);
    return call.channels;
  };
  CHECK(channels({4, 1}) == 1);
  CHECK(channels({4, 2}) == 2);
  CHECK(channels({8, 2}) == 3);
  CHECK(channels({8, 1}) == 0);
  CHECK(channels({2, 1}) == 0);
  CHECK(warnings == 0);
}

TEST_CASE("tuner table: each communicator reads the table") {
  Bench bench;
  bench.write("all_reduce 2 1 0 100 ring simple 1\n");
  void* first = bench.begin();
  bench.write("all_reduce 2 1 0 100 tree simple 2\n");
  void* second = bench.begin();
  for (const auto& [context, algorithm] : {std::pair{first, kRing}, {second, kTree}}) {
    TunerCall call;
    CHECK(call.ask(bench.tuner(), context, kAllReduce, 1) == 0);
    CHECK(call.at(algorithm, kSimple) == 0.0F);
  }
  bench.write("all_reduce 2 1 0 100 tree simple x\n");
  void* third = first;
  CHECK(bench.tuner().init(&third, 1, 2, 1, log, nullptr, nullptr) == kInvalidUsage);
  CHECK(third == nullptr);
  CHECK(last_warning.find("table: line 5, channels: 'x' is not a number from 0 to 256") !=
        std::string::npos);
  CHECK(bench.tuner().finalize(third) == 0);  // as the library's clean-up does
  CHECK(bench.tuner().finalize(second) == 0);
  CHECK(bench.tuner().finalize(first) == 0);
}

TEST_CASE("tuner table: threads that create communicators and ask at once") {
  Bench bench;
  bench.write("all_reduce 2 1 0 100 ring simple 4\nall_reduce 2 1 101 200 tree ll128 4\n");
  std::array<int, 4> wrong{};
  std::vector<std::thread> threads;
  for (int& of_thread : wrong) {
    threads.emplace_back([&] {
      for (int number = 0; number < 50; ++number) {
        void* context = nullptr;
        of_thread += bench.tuner().init(&context, 1, 2, 1, nullptr, nullptr, nullptr);
        TunerCall call;
        of_thread += call.ask(bench.tuner(), context, kAllReduce, 50);
        of_thread += call.at(kRing, kSimple) == 0.0F && call.changed() == 1 ? 0 : 1;
        of_thread += bench.tuner().finalize(context);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == std::array<int, 4>{});
}
