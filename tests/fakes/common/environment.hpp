#pragma once

#include <cstdio>
#include <cstdlib>

namespace fake_common {

/// A whole number from the environment, `least` or more. A test that misspells a setting would
/// otherwise pass for the wrong reason, so what is no such number ends the process.
inline unsigned long long environment_number(const char* name, unsigned long long otherwise,
                                             unsigned long long least = 1) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  unsigned long long value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0' || value < least || *text == '-') {
    std::fprintf(stderr, "%s is not a whole number of %llu or more: %s\n", name, least, text);
    std::abort();
  }
  return value;
}

}  // namespace fake_common
