// Apart, because releases with two libraries have it in another one than what makes communicators.

#include "common/export.hpp"
#include "hccl/abi.hpp"

namespace fake_hccl {

FAKE_API const char* HcclGetErrorString(int code) {
  switch (code) {
    case kSuccess:
      return "no error";
    case kParameter:
      return "parameter error";
    case kPointer:
      return "empty pointer";
    case kInternal:
      return "internal error";
    case kNotSupported:
      return "feature not support";
    case kSystemCall:
      return "call system interface error";
    case kRuntime:
      return "call runtime api fail";
    case kRemote:
      return "error cqe";
    default:
      return "unknow error";
  }
}

}  // namespace fake_hccl
