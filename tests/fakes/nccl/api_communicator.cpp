// Versions, errors, communicators and groups.

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/environment.hpp"
#include "common/export.hpp"
#include "nccl/communicator.hpp"
#include "nccl/faults.hpp"
#include "nccl/group.hpp"
#include "nccl/last_error.hpp"
#include "nccl/registration.hpp"

namespace fake_nccl {
namespace {

constexpr unsigned long long kNoDevice = 1ull << 32;

unsigned long long device_or_none() {
  try {
    return static_cast<unsigned long long>(Runtime::instance().current_device());
  } catch (const Failure&) {
    return kNoDevice + 1;
  }
}

void store(void** target, std::shared_ptr<Communicator> communicator) {
  *target = communicator == nullptr ? nullptr : communicators().add(std::move(communicator));
}

std::shared_ptr<Communicator> end_communicator(void* handle) {
  std::shared_ptr<Communicator> communicator = communicator_behind(handle);
  communicators().take(handle);
  forget_registrations(communicator);
  return communicator;
}

}  // namespace

int version() {
  using fake_common::environment_number;
  // A rank is not known yet when the version is asked for: its device is.
  if (environment_number("CCLMARK_FAKE_ODD_DEVICE", kNoDevice, 0) == device_or_none()) {
    return static_cast<int>(environment_number("CCLMARK_FAKE_ODD_VERSION", 1));
  }
  return static_cast<int>(
      environment_number("CCLMARK_FAKE_NCCL_VERSION", CCLMARK_FAKE_DEFAULT_VERSION));
}

FAKE_API int ncclGetVersion(int* number) {
  return guarded([&] {
    require(number != nullptr, kInvalidArgument, "no place for the version");
    *number = version();
  });
}

FAKE_API const char* ncclGetErrorString(int code) {
  switch (code) {
    case kSuccess:
      return "no error";
    case kUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case kSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case kInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case kInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case kInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case kRemoteError:
      return "remote process exited or there was a network error";
    case kInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

/// The communicator is not looked at, as in NCCL: what failed may be its making.
FAKE_API const char* ncclGetLastError(void*) {
  return last_error();
}

FAKE_API int ncclGetUniqueId(UniqueId* id) {
  return guarded([&] {
    require(id != nullptr, kInvalidArgument, "no place for the id");
    *id = create_control();
  });
}

FAKE_API int ncclCommInitRank(void** communicator, int ranks, UniqueId id, int rank) {
  return guarded([&] {
    require(communicator != nullptr, kInvalidArgument, "no place for the communicator");
    require(!in_group(), kInvalidUsage, "the fake makes one communicator a call, outside groups");
    *communicator = nullptr;
    fail_if_asked(rank, "CommInitRank");
    store(communicator, std::make_shared<Communicator>(id, ranks, rank));
  });
}

FAKE_API int ncclCommSplit(void* parent, int color, int key, void** communicator, void* config) {
  return guarded([&] {
    require(communicator != nullptr, kInvalidArgument, "no place for the communicator");
    require(config == nullptr, kInvalidArgument, "the fake takes no configuration");
    *communicator = nullptr;
    std::shared_ptr<Communicator> split_up = communicator_behind(parent);
    fail_if_asked(split_up->rank(), "CommSplit");
    store(communicator, split(*split_up, color, key));
  });
}

FAKE_API int ncclCommDestroy(void* communicator) {
  return guarded([&] { end_communicator(communicator)->destroy(); });
}

FAKE_API int ncclCommAbort(void* communicator) {
  return guarded([&] { end_communicator(communicator)->abort(); });
}

FAKE_API int ncclCommGetAsyncError(void* communicator, int* code) {
  return guarded([&] {
    require(code != nullptr, kInvalidArgument, "no place for the error");
    *code = communicator_behind(communicator)->async_error();
  });
}

#ifdef CCLMARK_FAKE_RECENT
/// As NCCL since 2.30: tables of the calling thread.
FAKE_API int ncclParamGetAllParameterKeys(const char*** keys, int* number) {
  static std::array<const char*, 3> all = {"NCCL_BUFFSIZE", "NCCL_P2P_DISABLE", "NCCL_UNKNOWN"};
  *keys = all.data();
  *number = static_cast<int>(all.size());
  return kSuccess;
}

FAKE_API int ncclParamGetParameter(const char* key, const char** value, int* bytes) {
  static thread_local std::string found;
  const char* set = std::getenv(key);
  if (std::string_view(key) == "NCCL_UNKNOWN") return kInvalidArgument;
  found = set != nullptr ? set : std::string_view(key) == "NCCL_BUFFSIZE" ? "4194304" : "0";
  *value = found.data();
  *bytes = static_cast<int>(found.size());
  return kSuccess;
}
#endif

FAKE_API int ncclGroupStart() {
  return guarded([] { start_group(); });
}

FAKE_API int ncclGroupEnd() {
  return guarded([] { end_group(); });
}

}  // namespace fake_nccl
