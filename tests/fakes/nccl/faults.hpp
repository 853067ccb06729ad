#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

namespace fake_nccl {

// Faults that tests ask for. `rank` is a number, or `all`; `call` is the name of the function
// without its prefix. The environment is read at each call, so that a test can change it.

/// CCLMARK_FAKE_NCCL_FAIL=rank:call[:code] - the call returns that code, by default
/// ncclInternalError. Raises that Failure.
void fail_if_asked(int rank, const char* call);
/// CCLMARK_FAKE_NCCL_ENQUEUE_US=N - every call takes the host so many microseconds.
void take_time_if_asked();
/// CCLMARK_FAKE_SLOW_UNLESS=NAME=VALUE:US - every operation takes the device so many microseconds
/// longer unless that variable has the value.
std::chrono::microseconds asked_to_take();
/// CCLMARK_FAKE_NCCL_HANG=rank:call - the operation never completes.
bool asked_to_hang(int rank, const char* call);
/// CCLMARK_FAKE_NCCL_CORRUPT=rank:call:element - all bits of that element of the output flip.
std::optional<size_t> asked_to_corrupt(int rank, const char* call);

}  // namespace fake_nccl
