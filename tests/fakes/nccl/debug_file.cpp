#include "nccl/debug_file.hpp"

#include <strings.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

namespace fake_nccl {
namespace {

/// The file is opened once.
FILE* open_file() {
  static FILE* const file = []() -> FILE* {
    const char* path = std::getenv("NCCL_DEBUG_FILE");
    if (path == nullptr) return stdout;
    std::string name;
    for (const char* next = path; *next != '\0'; ++next) {
      if (next[0] == '%' && next[1] == 'p') {
        name += std::to_string(getpid());
        ++next;
      } else if (next[0] == '%' && next[1] == 'h') {
        std::array<char, 64> host{};
        gethostname(host.data(), host.size() - 1);
        name += host.data();
        ++next;
      } else {
        name += *next;
      }
    }
    return std::fopen(name.c_str(), "w");
  }();
  return file;
}

}  // namespace

FILE* debug_file(const char* subject) {
  const char* level = std::getenv("NCCL_DEBUG");
  const char* subjects = std::getenv("NCCL_DEBUG_SUBSYS");
  if (level == nullptr || strcasecmp(level, "INFO") != 0) return nullptr;
  if (subjects == nullptr || std::strstr(subjects, subject) == nullptr) return nullptr;
  return open_file();
}

}  // namespace fake_nccl
