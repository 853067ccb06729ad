#include "nccl/control.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <new>

namespace fake_nccl {
namespace {

constexpr uint64_t kMagic = 0x3130454b41464343;  // "CCFAKE01"

/// The rest of an id is zero.
struct IdContent {
  uint64_t magic;
  uint64_t nonce;
  int32_t pid;
  int32_t fd;
};
static_assert(sizeof(IdContent) <= sizeof(UniqueId));

std::shared_ptr<Control> map_control(int fd) {
  void* memory = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  require(memory != MAP_FAILED, kSystemError, "cannot map the control segment");
  return {static_cast<Control*>(memory),
          [](Control* control) { munmap(static_cast<void*>(control), sizeof(Control)); }};
}

}  // namespace

UniqueId create_control() {
  int fd = memfd_create("cclmark-fake-control", MFD_CLOEXEC);
  require(fd >= 0, kSystemError, "cannot create the control segment");
  require(ftruncate(fd, sizeof(Control)) == 0, kSystemError, "cannot size the control segment");
  std::shared_ptr<Control> control = map_control(fd);
  new (control.get()) Control;
  require(getrandom(&control->nonce, sizeof(control->nonce), 0) == sizeof(control->nonce),
          kSystemError, "no random number for the id");

  IdContent content{kMagic, control->nonce, getpid(), fd};
  UniqueId id{};
  std::memcpy(&id, &content, sizeof(content));
  return id;
}

std::shared_ptr<Control> open_control(const UniqueId& id) {
  IdContent content;
  std::memcpy(&content, &id, sizeof(content));
  UniqueId clean{};
  std::memcpy(&clean, &content, sizeof(content));
  require(content.magic == kMagic && std::memcmp(&clean, &id, sizeof(id)) == 0, kInvalidArgument,
          "the unique id is not one of ncclGetUniqueId");

  std::string path = "/proc/" + std::to_string(content.pid) + "/fd/" + std::to_string(content.fd);
  int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  require(fd >= 0, kSystemError, "the process that made the unique id is gone");
  struct stat status{};
  bool right_size = fstat(fd, &status) == 0 && status.st_size == sizeof(Control);
  std::shared_ptr<Control> control = right_size ? map_control(fd) : nullptr;
  close(fd);
  require(control != nullptr && control->nonce == content.nonce, kSystemError,
          "the process that made the unique id is gone");
  return control;
}

}  // namespace fake_nccl
