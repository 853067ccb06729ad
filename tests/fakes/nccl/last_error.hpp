#pragma once

#include <new>
#include <string>

#include "nccl/abi.hpp"

namespace fake_nccl {

/// The last error is the process's, as NCCL's is: a stream's thread may have met it.
void set_last_error(const std::string& text);
/// Valid until this thread asks again.
const char* last_error();

/// Runs the body of an API function.
template <typename Body>
int guarded(Body body) noexcept {
  try {
    body();
    return kSuccess;
  } catch (const Failure& failure) {
    set_last_error(failure.text);
    return failure.code;
  } catch (const std::bad_alloc&) {
    set_last_error("out of host memory");
    return kSystemError;
  }
}

}  // namespace fake_nccl
