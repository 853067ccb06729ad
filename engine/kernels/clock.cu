// Kernels that read the device's clock: whenever the host asks, so that the two clocks can be
// compared, to let time pass on a stream, and to move memory for a time.
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

/// `origin` is in the device's memory. The kernel writes the time there if `mode` is 1. If it is 2,
/// all threads end `wait_ns` after the first one has begun, of which `*origin`, all ones before,
/// becomes the end. Otherwise it ends `wait_ns` after that time, or after its own begin if `origin`
/// is null.
struct PauseArguments {
  volatile unsigned long long* origin;
  unsigned long long wait_ns;
  unsigned mode;
};

CCLMARK_KERNEL(cclmark_pause, PauseArguments) {
  unsigned long long begin = cclmark_now_ns();
  if (a.mode == 1) {
    *a.origin = begin;
    return;
  }
  if (a.mode == 2) {
    CCLMARK_MIN((unsigned long long*)a.origin, begin + a.wait_ns);
    while (cclmark_now_ns() < *a.origin) cclmark_relax();
    return;
  }
  if (a.origin) begin = *a.origin;
  while (cclmark_now_ns() - begin < a.wait_ns) cclmark_relax();
}

/// The first `vectors` of `memory` are read and the `vectors` after them written, by as many blocks
/// as multiprocessors are to be busy. All of them end `wait_ns` after the first one has begun:
/// `*deadline`, all ones before, is that time.
struct TrafficArguments {
  Vector* memory;
  unsigned long long vectors;
  unsigned long long wait_ns;
  unsigned long long* deadline;
};

CCLMARK_KERNEL(cclmark_traffic, TrafficArguments) {
  const unsigned long long stride = CCLMARK_ITEM_STRIDE;
  unsigned long long i = CCLMARK_FIRST_ITEM;
  CCLMARK_MIN(a.deadline, cclmark_now_ns() + a.wait_ns);
  while (cclmark_now_ns() < *(const volatile unsigned long long*)a.deadline) {
    if (i + 3 * stride >= a.vectors) i = CCLMARK_FIRST_ITEM;
    // Four of each thread are on their way at a time.
    const Vector first = CCLMARK_LOAD_ONCE(a.memory + i);
    const Vector second = CCLMARK_LOAD_ONCE(a.memory + i + stride);
    const Vector third = CCLMARK_LOAD_ONCE(a.memory + i + 2 * stride);
    const Vector fourth = CCLMARK_LOAD_ONCE(a.memory + i + 3 * stride);
    Vector* target = a.memory + a.vectors + i;
    target[0] = first;
    target[stride] = second;
    target[2 * stride] = third;
    target[3 * stride] = fourth;
    i += 4 * stride;
  }
}
