#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace selftest {

struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Raises Failed with the place when `condition` does not hold.
#define CHECK(condition) ::selftest::check(condition, #condition, __FILE__, __LINE__)
/// The same for two whole numbers that have to be equal.
#define CHECK_EQUAL(actual, expected)                                                       \
  ::selftest::check_equal(static_cast<long long>(actual), static_cast<long long>(expected), \
                          #actual, __FILE__, __LINE__)

void check(bool condition, const char* text, const char* file, int line);
void check_equal(long long actual, long long expected, const char* text, const char* file,
                 int line);

/// Runs `body(rank)` in `ranks` processes and counts those that fail or do not end. Libraries are
/// loaded in these processes only, so each check begins afresh.
void run(const std::string& name, int ranks, const std::function<void(int rank)>& body);
int failures();

}  // namespace selftest
