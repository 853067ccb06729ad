#include "nccl/faults.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <regex>
#include <string>
#include <thread>

#include "common/environment.hpp"
#include "nccl/abi.hpp"

namespace fake_nccl {
namespace {

struct Request {
  int rank;
  std::string call;
  size_t element;
};

/// A setting that says nothing sensible ends the process: its test would pass for no reason.
std::optional<Request> read(const char* variable, bool with_element) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  static const std::regex plain("([0-9]{1,4}):([A-Za-z]+)");
  static const std::regex with("([0-9]{1,4}):([A-Za-z]+):([0-9]{1,18})");
  std::cmatch match;
  if (!std::regex_match(text, match, with_element ? with : plain)) {
    std::fprintf(stderr, "%s is not rank:call%s: %s\n", variable, with_element ? ":element" : "",
                 text);
    std::abort();
  }
  size_t element = with_element ? std::stoull(match[3]) : 0;
  return Request{std::stoi(match[1]), match[2], element};
}

bool concerns(const std::optional<Request>& request, int rank, const char* call) {
  return request && request->rank == rank && request->call == call;
}

}  // namespace

void fail_if_asked(int rank, const char* call) {
  if (!concerns(read("CCLMARK_FAKE_NCCL_FAIL", false), rank, call)) return;
  throw Failure{kInternalError,
                "injected failure of " + std::string(call) + " on rank " + std::to_string(rank)};
}

void take_time_if_asked() {
  auto time_us = fake_common::environment_number("CCLMARK_FAKE_NCCL_ENQUEUE_US", 0, 0);
  if (time_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(time_us));
}

bool asked_to_hang(int rank, const char* call) {
  return concerns(read("CCLMARK_FAKE_NCCL_HANG", false), rank, call);
}

std::optional<size_t> asked_to_corrupt(int rank, const char* call) {
  auto request = read("CCLMARK_FAKE_NCCL_CORRUPT", true);
  if (!concerns(request, rank, call)) return std::nullopt;
  return request->element;
}

}  // namespace fake_nccl
