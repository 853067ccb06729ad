#pragma once

#include <sched.h>

#include <cstdint>

namespace cclmark {

inline void relax_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// How a wait on another rank's memory behaves between looks: it spins while that pays, yields the
/// processor when ranks outnumber processors or the wait grows long, and only then looks at clocks.
class Patience {
 public:
  explicit Patience(bool oversubscribed) : spins_(oversubscribed ? 0 : kSpins) {}

  /// To be called after each unsuccessful look. True when it is time to check flags and deadline.
  bool pause() {
    ++looks_;
    if (looks_ <= spins_) {
      relax_cpu();
    } else {
      sched_yield();
    }
    return looks_ % kLooksPerCheck == 0;
  }

 private:
  static constexpr uint32_t kSpins = 4096;
  static constexpr uint32_t kLooksPerCheck = 256;
  uint32_t spins_;
  uint32_t looks_ = 0;
};

}  // namespace cclmark
