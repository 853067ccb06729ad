#include "plugin/logging.hpp"

#include <cstdio>

#include "plugin/event_log.hpp"

namespace cclmark::plugin {

namespace {

// Of NCCL's logger.
constexpr int kWarning = 2, kInformation = 3;
constexpr unsigned long kEveryFlag = ~0UL;
constexpr unsigned long kInitialization = 1, kTuning = 64;
constexpr char kFormat[] = "cclmark's plug-in %s: %s";

void print(const char* problem, const char* text) {
  std::fprintf(stderr, "cclmark's plug-in %s: %s\n", problem, text);
}

}  // namespace

void warn(Logger log, const char* problem, const char* text) {
  if (log != nullptr) {
    log(kWarning, kEveryFlag, __FILE__, __LINE__, kFormat, problem, text);
  } else {
    print(problem, text);
  }
}

void warn_visibly(Logger log, std::atomic_flag& is_printed, const char* problem, const char* text) {
  if (log != nullptr) {
    warn(log, problem, text);
  }
  if (!is_printed.test_and_set(std::memory_order_relaxed)) {
    print(problem, text);
  }
}

void report_missing_log(Logger log) {
  static std::atomic_flag is_printed;
  if (*EventLog::failure() != '\0') {
    warn_visibly(log, is_printed, "records nothing", EventLog::failure());
  }
}

void inform(Logger log, const char* what, const char* text) {
  if (log != nullptr) {
    log(kInformation, kInitialization | kTuning, __FILE__, __LINE__, kFormat, what, text);
  }
}

}  // namespace cclmark::plugin
