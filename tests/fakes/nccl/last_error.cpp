#include "nccl/last_error.hpp"

#include <mutex>

namespace fake_nccl {
namespace {

struct Shared {
  std::mutex mutex;
  std::string text;
};

/// Never destroyed: streams' threads outlive main().
Shared& shared() {
  static auto* error = new Shared;
  return *error;
}

}  // namespace

void set_last_error(const std::string& text) {
  std::lock_guard lock(shared().mutex);
  shared().text = text;
}

const char* last_error() {
  thread_local std::string copy;
  std::lock_guard lock(shared().mutex);
  copy = shared().text;
  return copy.c_str();
}

}  // namespace fake_nccl
