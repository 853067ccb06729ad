#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "sanitizers.hpp"

namespace {

/// Gives this process a last-level cache of 1 MiB, if it may mount. The buffers of host ranks are a
/// multiple of it: to fill 100 MB for every session takes longer than most tests.
void shrink_cache() {
  const char* const shown = "/sys/devices/system/cpu/cpu0/cache/index3/size";
  const std::string_view size = "1024K\n";
  if (access(shown, R_OK) != 0 || unshare(CLONE_NEWNS) != 0 ||
      mount("none", "/", nullptr, MS_PRIVATE | MS_REC, nullptr) != 0) {
    return;
  }
  char path[] = "/tmp/cclmark-cache-size-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0) return;
  if (write(file, size.data(), size.size()) == static_cast<ssize_t>(size.size())) {
    mount(path, shown, nullptr, MS_BIND, nullptr);
  }
  close(file);
  unlink(path);
}

}  // namespace

// AddressSanitizer of GCC 12 takes a block of thread-local storage at offset 16 of a page for one
// of an old glibc, with its bounds in front of it. A block from its own allocator has other numbers
// there, and the search for leaks at the end then crashes, once in some twenty runs. The
// sanitizer's library finds this function only if the program exports it.
extern "C" [[gnu::visibility("default")]] const char* __asan_default_options() {
  return "intercept_tls_get_addr=0";
}

TEST_CASE("AddressSanitizer finds its options") {
  if (&__asan_init == nullptr) return;
  CHECK(dlsym(RTLD_DEFAULT, "__asan_default_options") ==
        reinterpret_cast<void*>(&__asan_default_options));
}

int main(int count, char** arguments) {
  shrink_cache();
  return doctest::Context(count, arguments).run();
}
