#include "core/stack.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "core/error.hpp"

namespace cclmark {
namespace {

constexpr int kMostFrames = 64;

std::atomic<int> reported_to = -1;
struct sigaction before{};

/// A line of text that uses no heap memory. Text that does not fit is left out.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    size_t count = std::min(text.size(), text_.size() - 1 - used_);
    std::copy_n(text.data(), count, text_.data() + used_);
    used_ += count;
    return *this;
  }
  Line& operator<<(uintptr_t number) {
    std::array<char, 2 * sizeof(number)> digits;
    size_t first = digits.size();
    do {
      digits[--first] = "0123456789abcdef"[number % 16];
      number /= 16;
    } while (number != 0);
    return *this << "0x" << std::string_view(digits.data() + first, digits.size() - first);
  }
  void write_to(int fd) {
    text_[used_++] = '\n';
    for (size_t done = 0; done < used_;) {
      ssize_t count = write(fd, text_.data() + done, used_ - done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return;
      done += static_cast<size_t>(count);
    }
  }

 private:
  std::array<char, 2048> text_;
  size_t used_ = 0;
};

/// The address of the interrupted instruction; 0 on a processor that is not supported here.
uintptr_t interrupted_at(const void* context) {
  const mcontext_t& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<uintptr_t>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return machine.pc;
#else
  (void)machine;
  return 0;
#endif
}

void write_name(int fd, uintptr_t pc, bool innermost) {
  Dl_info info{};
  // If a call is a function's last instruction, its return address lies behind the function's end:
  // all frames but the innermost are looked up one byte earlier.
  void* within = reinterpret_cast<void*>(innermost ? pc : pc - 1);
  Line line;
  line << "frame\t" << pc << "\t";
  if (dladdr(within, &info) != 0 && info.dli_fname != nullptr) {
    line << info.dli_fname << "\t" << pc - reinterpret_cast<uintptr_t>(info.dli_fbase) << "\t";
    if (info.dli_sname != nullptr) {
      line << info.dli_sname << "+" << pc - reinterpret_cast<uintptr_t>(info.dli_saddr);
    }
  } else {
    line << "\t\t";
  }
  line.write_to(fd);
}

void call_what_was_before(int signal, siginfo_t* info, void* context) {
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  }
}

void report(int signal, siginfo_t* info, void* context) {
  int error = errno;
  // The kernel may deliver the signal to any thread, and libraries have many. Operations run on the
  // main thread.
  if (syscall(SYS_gettid) != getpid()) {
    syscall(SYS_tgkill, getpid(), getpid(), signal);
    errno = error;
    return;
  }
  int fd = reported_to.load(std::memory_order_relaxed);
  lseek(fd, 0, SEEK_END);
  (Line() << "begin").write_to(fd);
  call_what_was_before(signal, info, context);
  std::array<void*, kMostFrames> found;
  std::span<void*> frames(found.data(), static_cast<size_t>(backtrace(found.data(), kMostFrames)));
  auto pc = std::ranges::find(frames, reinterpret_cast<void*>(interrupted_at(context)));
  if (pc != frames.end()) frames = {pc, frames.end()};
  for (void* frame : frames) {
    (Line() << "address " << reinterpret_cast<uintptr_t>(frame)).write_to(fd);
  }
  for (void* const& frame : frames) {
    write_name(fd, reinterpret_cast<uintptr_t>(frame), &frame == frames.data());
  }
  (Line() << "end").write_to(fd);
  errno = error;
}

}  // namespace

void report_stack_on(int signal, int fd) {
  // The first call loads libgcc_s, which a handler must not do.
  void* primed;
  backtrace(&primed, 1);
  reported_to = fd;
  struct sigaction action{}, replaced{};
  action.sa_sigaction = report;
  // The handler runs on the thread's own stack: Python's stack for signals has a few KiB, which
  // unwinding may overrun.
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  if (sigaction(signal, nullptr, &replaced) == 0) {
    if (replaced.sa_sigaction != report) before = replaced;
    if (sigaction(signal, &action, nullptr) == 0) return;
  }
  throw Error(
      Error::describe("sigaction(" + std::to_string(signal) + ")", errno, std::strerror(errno)));
}

}  // namespace cclmark
