#include "plugin/logging.hpp"

#include <cstdio>

namespace cclmark::plugin {

namespace {

// Of NCCL's logger.
constexpr int kWarning = 2, kInformation = 3;
constexpr unsigned long kEveryFlag = ~0UL;
constexpr unsigned long kInitialization = 1, kTuning = 64;
constexpr char kFormat[] = "cclmark's plug-in %s: %s";

}  // namespace

void warn(Logger log, const char* problem, const char* text) {
  if (log != nullptr) {
    log(kWarning, kEveryFlag, __FILE__, __LINE__, kFormat, problem, text);
  } else {
    std::fprintf(stderr, "cclmark's plug-in %s: %s\n", problem, text);
  }
}

void inform(Logger log, const char* what, const char* text) {
  if (log != nullptr) {
    log(kInformation, kInitialization | kTuning, __FILE__, __LINE__, kFormat, what, text);
  }
}

}  // namespace cclmark::plugin
