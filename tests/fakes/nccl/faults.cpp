#include "nccl/faults.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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
  int rank = -1, end = 0;
  char call[32] = "";
  size_t element = 0;
  if (with_element) {
    std::sscanf(text, "%4d:%31[A-Za-z]:%18zu%n", &rank, call, &element, &end);
  } else {
    std::sscanf(text, "%4d:%31[A-Za-z]%n", &rank, call, &end);
  }
  // The end is known where everything was there.
  if (end == 0 || text[end] != '\0' || rank < 0) {
    std::fprintf(stderr, "%s is not rank:call%s: %s\n", variable, with_element ? ":element" : "",
                 text);
    std::abort();
  }
  return Request{rank, call, element};
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
