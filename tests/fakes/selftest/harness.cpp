#include "selftest/harness.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace selftest {
namespace {

constexpr unsigned kMostSeconds = 60;
int failed = 0;

[[noreturn]] void be_rank(const std::string& name, int rank,
                          const std::function<void(int rank)>& body) {
  alarm(kMostSeconds);
  int code = 0;
  try {
    body(rank);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s, rank %d: %s\n", name.c_str(), rank, error.what());
    code = 1;
  }
  std::exit(code);
}

}  // namespace

void check(bool condition, const char* text, const char* file, int line) {
  if (condition) return;
  throw Failed(std::string(file) + ":" + std::to_string(line) + ": " + text);
}

void check_equal(long long actual, long long expected, const char* text, const char* file,
                 int line) {
  if (actual == expected) return;
  throw Failed(std::string(file) + ":" + std::to_string(line) + ": " + text + " is " +
               std::to_string(actual) + ", expected " + std::to_string(expected));
}

void run(const std::string& name, int ranks, const std::function<void(int rank)>& body) {
  std::fflush(nullptr);
  auto begin = std::chrono::steady_clock::now();
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    pid_t child = fork();
    if (child == 0) be_rank(name, rank, body);
    children.push_back(child);
  }
  int bad = 0;
  for (pid_t child : children) {
    int status = 0;
    bad += child < 0 || waitpid(child, &status, 0) != child || status != 0;
  }
  std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  std::printf("%-4s %s (%.2f s)\n", bad == 0 ? "ok" : "BAD", name.c_str(), elapsed.count());
  failed += bad != 0;
}

int failures() {
  return failed;
}

}  // namespace selftest
