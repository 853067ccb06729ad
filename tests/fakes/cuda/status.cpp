#include "cuda/status.hpp"

namespace fake_cuda {

const char* describe(int status) {
  switch (status) {
    case kSuccess:
      return "no error";
    case kInvalidValue:
      return "invalid argument";
    case kOutOfMemory:
      return "out of memory";
    case kNotInitialized:
      return "initialization error";
    case kDeviceUnavailable:
      return "CUDA-capable device(s) is/are busy or unavailable";
    case kNoDevice:
      return "no CUDA-capable device is detected";
    case kInvalidDevice:
      return "invalid device ordinal";
    case kInvalidImage:
      return "device kernel image is invalid";
    case kInvalidContext:
      return "invalid device context";
    case kMapFailed:
      return "mapping of buffer object failed";
    case kNoBinaryForGpu:
      return "no kernel image is available for execution on the device";
    case kPeerAccessUnsupported:
      return "peer access is not supported between these two devices";
    case kInvalidHandle:
      return "invalid resource handle";
    case kIllegalState:
      return "the operation cannot be performed in the present state";
    case kNotFound:
      return "named symbol not found";
    case kNotReady:
      return "device not ready";
    case kIllegalAddress:
      return "an illegal memory access was encountered";
    case kPeerAccessEnabled:
      return "peer access is already enabled";
    case kPeerAccessNotEnabled:
      return "peer access has not been enabled";
    case kHostMemoryRegistered:
      return "part or all of the requested memory range is already mapped";
    case kHostMemoryNotRegistered:
      return "pointer does not correspond to a registered memory region";
    case kNotPermitted:
      return "operation not permitted";
    case kNotSupported:
      return "operation not supported";
    case kDriverMismatch:
      return "system has unsupported display driver / cuda driver combination";
    case kCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case kCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case kCapturedEvent:
      return "operation not permitted on an event last recorded in a capturing stream";
    case kCaptureWrongThread:
      return "attempt to terminate a thread-local capture sequence from another thread";
    default:
      return nullptr;
  }
}

}  // namespace fake_cuda
