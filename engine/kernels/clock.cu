// Kernels that read the device's clock: whenever the host asks, so that the two clocks can be
// compared, and to let time pass on a stream.
//
// Written in the dialect of dialect.cu, which comes before it wherever it is compiled.

/// `asked` and `answers` are in pinned memory. The kernel ends after `rounds` answers, or when no
/// question comes for `limit_ns`.
struct ClockArguments {
  const volatile unsigned* asked;
  volatile unsigned long long* answers;
  unsigned rounds;
  unsigned long long limit_ns;
};

CCLMARK_KERNEL(cclmark_clock, ClockArguments) {
  for (unsigned i = 0; i < a.rounds; ++i) {
    const unsigned long long begin = cclmark_now_ns();
    unsigned long long now = begin;
    while (*a.asked <= i) {
      cclmark_relax();
      now = cclmark_now_ns();
      if (now - begin > a.limit_ns) return;
    }
    a.answers[i] = cclmark_now_ns();
  }
}

/// `origin` is in the device's memory. The kernel writes the time there if `marks`. Otherwise it
/// ends `wait_ns` after that time, or after its own begin if `origin` is null.
struct PauseArguments {
  volatile unsigned long long* origin;
  unsigned long long wait_ns;
  unsigned marks;
};

CCLMARK_KERNEL(cclmark_pause, PauseArguments) {
  unsigned long long begin = cclmark_now_ns();
  if (a.marks) {
    *a.origin = begin;
    return;
  }
  if (a.origin) begin = *a.origin;
  while (cclmark_now_ns() - begin < a.wait_ns) cclmark_relax();
}
