// Root infos, communicators and errors.

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "common/export.hpp"
#include "hccl/communicator.hpp"
#include "nccl/faults.hpp"
#include "nccl/last_error.hpp"

namespace fake_nccl {

/// Before there were 8-bit floats.
int version() {
  return 20000;
}

}  // namespace fake_nccl

namespace fake_hccl {
namespace {

using fake_nccl::communicators;
using fake_nccl::UniqueId;

std::mutex words_mutex;
/// By the handle of the communicator; streams' threads outlive main().
std::map<const void*, void*>& words() {
  static auto* map = new std::map<const void*, void*>;
  return *map;
}

/// A root info is the id of a control segment, and bytes that follow from it up to its end: whoever
/// hands on less than all is noticed.
RootInfo root_info_of(const UniqueId& id) {
  RootInfo root;
  std::memcpy(root.bytes, &id, sizeof(id));
  uint64_t state = 88172645463325252u;
  for (char byte : id.bytes) state = state * 31 + static_cast<unsigned char>(byte);
  for (size_t i = sizeof(id); i < sizeof(root); ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    root.bytes[i] = static_cast<char>(state);
  }
  return root;
}

}  // namespace

Code code_of(int result) {
  switch (result) {
    case fake_nccl::kSuccess:
      return kSuccess;
    case fake_nccl::kInvalidArgument:
    case fake_nccl::kInvalidUsage:
      return kParameter;
    case fake_nccl::kSystemError:
      return kSystemCall;
    case fake_nccl::kUnhandledCudaError:
      return kRuntime;
    case fake_nccl::kRemoteError:
      return kRemote;
    default:
      return kInternal;
  }
}

void complain(const std::string& text) noexcept {
  try {
    void* entry = fake_nccl::Runtime::instance().find("cclmark_fake_complain");
    reinterpret_cast<void (*)(const char*)>(entry)(text.c_str());
  } catch (const fake_nccl::Failure&) {
    return;  // nobody set a runtime up: that is what the caller is told by the code
  }
}

bool misreads(const char* argument) {
  const char* asked = std::getenv("CCLMARK_FAKE_HCCL_MISREAD");
  return asked != nullptr && std::strcmp(asked, argument) == 0;
}

HcclCommunicator hccl_communicator_behind(const void* handle) {
  require_pointer(handle, "the communicator");
  std::shared_ptr<fake_nccl::Communicator> communicator = fake_nccl::communicator_behind(handle);
  std::lock_guard lock(words_mutex);
  return {std::move(communicator), words()[handle]};
}

FAKE_API int HcclGetRootInfo(RootInfo* root) {
  return guarded([&] {
    require_pointer(root, "the place for the root info");
    fake_nccl::Runtime::instance().current_device();  // HCCL asks for a device that is set
    *root = root_info_of(fake_nccl::create_control());
  });
}

FAKE_API int HcclCommInitRootInfo(uint32_t ranks, const RootInfo* root, uint32_t rank,
                                  void** handle) {
  return guarded([&] {
    require_pointer(root, "the root info");
    require_pointer(handle, "the place for the communicator");
    UniqueId id;
    std::memcpy(&id, root->bytes, sizeof(id));
    RootInfo whole = root_info_of(id);
    if (misreads("root info")) ++whole.bytes[sizeof(whole) - 1];
    require(std::memcmp(&whole, root, sizeof(whole)) == 0,
            "the root info is not, in all its bytes, one of HcclGetRootInfo");
    fake_nccl::fail_if_asked(static_cast<int>(rank), "CommInitRootInfo");
    auto communicator = std::make_shared<fake_nccl::Communicator>(id, static_cast<int>(ranks),
                                                                  static_cast<int>(rank));
    void* word = fake_nccl::Runtime::instance().allocate(sizeof(float));
    *handle = communicators().add(std::move(communicator));
    std::lock_guard lock(words_mutex);
    words()[*handle] = word;
  });
}

FAKE_API int HcclCommDestroy(void* handle) {
  return guarded([&] {
    HcclCommunicator member = hccl_communicator_behind(handle);
    communicators().take(handle);
    member.communicator->destroy();
    fake_nccl::Runtime::instance().release(member.word);
    std::lock_guard lock(words_mutex);
    words().erase(handle);
  });
}

#ifdef CCLMARK_FAKE_RECENT

FAKE_API int HcclGetCommAsyncError(void* handle, int* code) {
  return guarded([&] {
    require_pointer(code, "the place for the error");
    *code = code_of(hccl_communicator_behind(handle).communicator->async_error());
    if (*code != kSuccess) complain(fake_nccl::last_error());
  });
}

#endif

}  // namespace fake_hccl
