#pragma once

#include <string>

#include "cuda/status.hpp"

namespace fake_ascend {

/// aclError, as far as the fake gives it, with the vendor's numbers.
enum Code : int {
  kSuccess = 0,
  kInvalidParameter = 100000,
  kUninitialized = 100001,
  kRepeatedInitialization = 100002,
  kInvalidFile = 100003,
  kInvalidDevice = 107001,
  kNoContext = 107002,
  kStreamOfOtherContext = 107003,
  kInvalidHandle = 107017,
  kNotSupported = 207000,
  kOutOfMemory = 207001,
  kAicoreException = 507015,
  kDriverError = 507899,
};

/// Thrown inside, returned outside with the text as the thread's recent error.
struct Failure {
  Code code;
  std::string text;
};

inline void require(bool met, const char* text, Code otherwise = kInvalidParameter) {
  if (!met) throw Failure{otherwise, text};
}

Code code_of(fake_cuda::Status status);
/// Keeps the text for aclGetRecentErrMsg; one that was not fetched makes room.
void set_recent_error(const std::string& text);
/// CCLMARK_FAKE_ACL_FAIL names the call: it returns the driver's error. Raises that Failure.
void fail_if_asked(const char* call);

/// Runs the body of the API function `call`.
template <typename Body>
int guarded(const char* call, Body body) noexcept {
  try {
    fail_if_asked(call);
    body();
    return kSuccess;
  } catch (const Failure& failure) {
    set_recent_error(std::string(call) + ": " + failure.text);
    return failure.code;
  } catch (const fake_cuda::Refusal& refusal) {
    set_recent_error(std::string(call) + ": " + fake_cuda::describe(refusal.status));
    return code_of(refusal.status);
  } catch (const std::bad_alloc&) {
    set_recent_error(std::string(call) + ": out of host memory");
    return kOutOfMemory;
  }
}

}  // namespace fake_ascend
