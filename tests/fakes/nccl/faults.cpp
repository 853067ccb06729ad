#include "nccl/faults.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <string>
#include <thread>

#include "common/environment.hpp"
#include "nccl/abi.hpp"

namespace fake_nccl {
namespace {

constexpr int kEveryRank = -1;

struct Request {
  int rank;
  std::string call;
  std::optional<size_t> number;
};

enum class Number : unsigned char { absent, optional, required };

/// A setting that cannot be parsed ends the process: its test would pass for no reason.
std::optional<Request> read(const char* variable, Number number) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  static const std::regex form("(\\d{1,4}|all):([A-Za-z]{1,31})(:(\\d{1,18}))?");
  std::smatch parts;
  std::string whole = text;
  if (!std::regex_match(whole, parts, form) || (number == Number::absent && parts[3].matched) ||
      (number == Number::required && !parts[3].matched)) {
    std::fprintf(stderr, "%s is not rank:call%s: %s\n", variable,
                 number == Number::absent ? "" : ":number", text);
    std::abort();
  }
  Request request{kEveryRank, parts[2], std::nullopt};
  if (parts[1] != "all") request.rank = std::stoi(parts[1]);
  if (parts[3].matched) request.number = std::stoull(parts[4]);
  return request;
}

bool concerns(const std::optional<Request>& request, int rank, const char* call) {
  return request && (request->rank == rank || request->rank == kEveryRank) && request->call == call;
}

}  // namespace

void fail_if_asked(int rank, const char* call) {
  auto request = read("CCLMARK_FAKE_NCCL_FAIL", Number::optional);
  if (!concerns(request, rank, call)) return;
  throw Failure{static_cast<Result>(request->number.value_or(kInternalError)),
                "injected failure of " + std::string(call) + " on rank " + std::to_string(rank)};
}

void take_time_if_asked() {
  auto time_us = fake_common::environment_number("CCLMARK_FAKE_NCCL_ENQUEUE_US", 0, 0);
  if (time_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(time_us));
}

std::chrono::microseconds asked_to_take() {
  const char* text = std::getenv("CCLMARK_FAKE_SLOW_UNLESS");
  if (text == nullptr) return {};
  static const std::regex form("([A-Z0-9_]{1,60})=([^:]{1,60}):(\\d{1,7})");
  std::cmatch parts;
  if (!std::regex_match(text, parts, form)) {
    std::fprintf(stderr, "CCLMARK_FAKE_SLOW_UNLESS is not NAME=VALUE:US: %s\n", text);
    std::abort();
  }
  if (fake_common::environment_is(parts[1].str().c_str(), parts[2].str().c_str())) return {};
  return std::chrono::microseconds(std::stol(parts[3]));
}

bool asked_to_hang(int rank, const char* call) {
  return concerns(read("CCLMARK_FAKE_NCCL_HANG", Number::absent), rank, call);
}

std::optional<size_t> asked_to_corrupt(int rank, const char* call) {
  auto request = read("CCLMARK_FAKE_NCCL_CORRUPT", Number::required);
  if (!concerns(request, rank, call)) return std::nullopt;
  return request->number;
}

}  // namespace fake_nccl
