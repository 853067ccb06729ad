#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace fake_common {

/// A whole number from the environment. A test that misspells a setting would otherwise pass for
/// the wrong reason, so what is not a positive number ends the process.
inline unsigned long long environment_number(const char* name, unsigned long long otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  unsigned long long value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0' || value == 0 || *text == '-') {
    std::fprintf(stderr, "%s is not a positive whole number: %s\n", name, text);
    std::abort();
  }
  return value;
}

}  // namespace fake_common
