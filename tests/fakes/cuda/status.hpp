#pragma once

#include <new>

namespace fake_cuda {

/// The driver API's results that the fake gives, with the vendor's numbers.
enum Status : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kMapFailed = 205,
  kNoBinaryForGpu = 209,
  kPeerAccessUnsupported = 217,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kPeerAccessEnabled = 704,
  kPeerAccessNotEnabled = 705,
  kHostMemoryRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kNotPermitted = 800,
  kNotSupported = 801,
  kDriverMismatch = 803,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCapturedEvent = 907,
  kCaptureWrongThread = 908,
};

/// The text of a status, or nullptr for a number that is none.
const char* describe(int status);

/// Thrown inside, returned outside.
struct Refusal {
  Status status;
};

inline void require(bool met, Status otherwise) {
  if (!met) throw Refusal{otherwise};
}

template <typename Body>
int guarded(Body body) noexcept {
  try {
    body();
    return kSuccess;
  } catch (const Refusal& refusal) {
    return refusal.status;
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  }
}

}  // namespace fake_cuda
