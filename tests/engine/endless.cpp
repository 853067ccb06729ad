#include <unistd.h>

namespace {

[[gnu::constructor]] void never_return() {
  for (;;) pause();
}

}  // namespace
