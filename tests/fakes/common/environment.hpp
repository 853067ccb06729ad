#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

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

/// Whether a variable has this value, for example one that makes a library log.
inline bool environment_is(const char* name, const char* value) {
  const char* text = std::getenv(name);
  return text != nullptr && std::strcmp(text, value) == 0;
}

/// Whether a variable has the number of this rank.
inline bool environment_is_rank(const char* name, int rank) {
  constexpr unsigned long long kNoRank = 1ull << 32;
  return environment_number(name, kNoRank, 0) == static_cast<unsigned long long>(rank);
}

/// Pairs of devices from the environment, such as `0-1,2-3`; none when it is not set. Anything else
/// ends the process, as above.
inline std::vector<std::pair<int, int>> environment_pairs(const char* name) {
  std::vector<std::pair<int, int>> pairs;
  const char* text = std::getenv(name);
  for (const char* next = text; next != nullptr && (next == text || next[-1] == ',');) {
    int first = -1, second = -1, length = 0;
    bool read = std::sscanf(next, "%d-%d%n", &first, &second, &length) == 2;
    if (!read || first < 0 || second < 0 || (next[length] != ',' && next[length] != '\0')) {
      std::fprintf(stderr, "%s is no list of pairs of devices: %s\n", name, text);
      std::abort();
    }
    pairs.emplace_back(first, second);
    next += length + (next[length] == ',');
  }
  return pairs;
}

}  // namespace fake_common
