#pragma once

#include <cstdint>

#include "nccl/abi.hpp"

namespace fake_hccl {

/// HcclResult, as far as the fake gives it.
enum Code : int {
  kSuccess = 0,
  kParameter = 1,
  kPointer = 2,
  kInternal = 4,
  kNotSupported = 5,
  kSystemCall = 8,
  kRuntime = 15,
  kRemote = 21,
};

struct RootInfo {
  char bytes[4108];
};

/// HcclSendRecvItem.
struct Item {
  int type;  ///< 0 sends, 1 receives
  void* memory;
  uint64_t count;
  int dtype;
  uint32_t peer;
};
static_assert(sizeof(Item) == 32);

/// HcclDataType, without int128 and 8-bit floats.
constexpr int kDtypeCount = 12;

/// Thrown inside, returned outside.
struct Failure {
  Code code;
  std::string text;
};

inline void require(bool met, const char* text, Code otherwise = kParameter) {
  if (!met) throw Failure{otherwise, text};
}
inline void require_pointer(const void* pointer, const char* which) {
  if (pointer == nullptr) throw Failure{kPointer, std::string(which) + " is null"};
}

Code code_of(int result);
/// Hands the text to the runtime, whose aclGetRecentErrMsg gives it to the caller.
void complain(const std::string& text) noexcept;
/// CCLMARK_FAKE_HCCL_MISREAD names what the library takes for something else than the caller means:
/// what a caller with a mistake in this interface would see.
bool misreads(const char* argument);

template <typename Body>
int guarded(Body body) noexcept {
  try {
    body();
    return kSuccess;
  } catch (const Failure& failure) {
    complain(failure.text);
    return failure.code;
  } catch (const fake_nccl::Failure& failure) {
    complain(failure.text);
    return code_of(failure.code);
  }
}

}  // namespace fake_hccl
