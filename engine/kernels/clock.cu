// Reads the device's clock whenever the host asks, so that the two clocks can be compared.
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
