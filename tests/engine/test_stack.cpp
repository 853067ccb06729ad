#include <dlfcn.h>
#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/stack.hpp"

using namespace cclmark;

namespace {

using std::chrono::steady_clock;

int written_to = -1;

/// What was there before, as Python's own.
void write_a_line(int) {
  if (write(written_to, "own\n", 4) != 4) _exit(1);
}

std::vector<std::string> lines_of(int fd) {
  std::string text(static_cast<size_t>(lseek(fd, 0, SEEK_END)), '\0');
  if (pread(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) return {};
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

size_t count_of(const std::vector<std::string>& lines, const std::string& start) {
  return static_cast<size_t>(std::ranges::count_if(
      lines, [&](const std::string& line) { return line.starts_with(start); }));
}

/// What a process in `hang` says when it is asked, `times` times one after the other, until its
/// last line begins with `last`. It never comes back from there.
std::vector<std::string> asked(const std::function<void()>& hang, size_t times = 1,
                               const std::string& last = "end") {
  int fd = memfd_create("test-stack", MFD_CLOEXEC);
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  pid_t child = fork();
  if (child == 0) {
    written_to = fd;
    signal(SIGRTMIN + 9, write_a_line);
    report_stack_on(SIGRTMIN + 9, fd);
    report_stack_on(SIGRTMIN + 9, fd);  // again: is not what was there before
    if (write(ready[1], "", 1) != 1) _exit(1);
    hang();
    _exit(0);
  }
  char byte;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  auto end = steady_clock::now() + std::chrono::seconds(30);
  for (size_t time = 1; time <= times; ++time) {
    REQUIRE(kill(child, SIGRTMIN + 9) == 0);
    while (count_of(lines_of(fd), last) < time && steady_clock::now() < end) usleep(1000);
  }
  bool lives = waitpid(child, nullptr, WNOHANG) == 0;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  std::vector<std::string> lines = lines_of(fd);
  close(fd);
  CHECK_MESSAGE(lives, "the signal ended it");
  return lines;
}

void check_whole(const std::vector<std::string>& lines, size_t times = 1) {
  REQUIRE(!lines.empty());
  CHECK(lines.front() == "begin");
  CHECK(lines.back() == "end");
  CHECK(count_of(lines, "begin") == times);
  CHECK(count_of(lines, "end") == times);
  CHECK(count_of(lines, "own") == times);
  CHECK(lines[1] == "own");
  CHECK(count_of(lines, "address 0x") >= times);
  CHECK(count_of(lines, "address 0x") == count_of(lines, "frame\t0x"));
}

}  // namespace

TEST_CASE("a process that waits in a call says so, and goes on waiting") {
  auto lines = asked([] {
    for (;;) poll(nullptr, 0, 60'000);
  });
  check_whole(lines);
  bool in_libc = std::ranges::any_of(lines, [](const std::string& line) {
    return line.starts_with("frame") && line.find("/libc.so") != std::string::npos;
  });
  CHECK(in_libc);
}

TEST_CASE("a process that spins says so each time it is asked") {
  auto lines = asked(
      [] {
        std::atomic<int> rounds = 0;
        for (;;) ++rounds;
      },
      3);
  check_whole(lines, 3);
}

TEST_CASE("whichever thread gets the signal, the main one reports") {
  auto lines = asked([] {
    sigset_t every;
    sigfillset(&every);
    std::thread other([] {
      for (;;) pause();
    });
    // Blocked for a moment in the main thread, the signal goes to the other one.
    pthread_sigmask(SIG_BLOCK, &every, nullptr);
    usleep(300'000);
    pthread_sigmask(SIG_UNBLOCK, &every, nullptr);
    for (;;) pause();
  });
  check_whole(lines);
}

TEST_CASE("where another thread holds the loader only names are missing") {
  auto lines = asked(
      [] {
        std::thread([] { dlopen(ENDLESS_LIBRARY, RTLD_NOW); }).detach();
        for (;;) pause();
      },
      1, "address");
  CHECK(count_of(lines, "own") == 1);
  CHECK(count_of(lines, "address 0x") >= 1);
}

TEST_CASE("a signal that cannot be caught is refused") {
  CHECK_THROWS_AS(report_stack_on(SIGKILL, 0), Error);
  CHECK_THROWS_AS(report_stack_on(-1, 0), Error);
}
