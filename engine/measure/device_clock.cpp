#include "measure/device_clock.hpp"

#include <sched.h>

#include <atomic>

#include "core/clock.hpp"

namespace cclmark {
namespace {

constexpr unsigned long long kLimitNs = 2'000'000'000;  // of the kernel, for one question
constexpr double kLimitS = 10;                          // of the host, for one answer
// Some 20 us, where a device answers within two: whoever is to answer may share this processor.
constexpr unsigned kLooksPerYield = 1024;

/// As in kernels/clock.cu.
struct ClockArguments {
  const volatile unsigned* asked;
  volatile unsigned long long* answers;
  unsigned rounds;
  unsigned long long limit_ns;
};

/// Pinned memory, released with its owner.
class Pinned {
 public:
  Pinned(Device& device, size_t bytes) : device_(device), memory_(device.allocate_pinned(bytes)) {}
  ~Pinned() { device_.release_pinned(memory_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  Device& device_;
  void* memory_;
};

}  // namespace

std::vector<ClockSample> sample_clock(Device& device, size_t rounds) {
  std::vector<ClockSample> samples;
  if (device.synchronous()) {
    for (size_t i = 0; i < rounds; ++i) {
      int64_t now = now_ns();
      samples.push_back({now, now, now});
    }
    return samples;
  }
  device.activate();
  const Kernel& kernel = device.kernel("cclmark_clock");
  // The word that the device polls has a separate cache line.
  constexpr size_t kAnswersAt = 128;
  Pinned memory(device, kAnswersAt + rounds * sizeof(uint64_t));
  auto* asked = reinterpret_cast<uint32_t*>(memory.data());
  auto* answers = reinterpret_cast<uint64_t*>(memory.data() + kAnswersAt);
  *asked = 0;
  for (size_t i = 0; i < rounds; ++i) answers[i] = 0;
  // Destroyed before the memory that the kernel uses; it ends by itself.
  Stream stream(device);
  ClockArguments arguments{asked, reinterpret_cast<volatile unsigned long long*>(answers),
                           static_cast<unsigned>(rounds), kLimitNs};
  device.launch_grid(kernel, &arguments, {}, stream.get());
  bool answered = true;
  for (size_t i = 0; i < rounds && answered; ++i) {
    std::atomic_ref<uint64_t> answer(answers[i]);
    Deadline deadline(kLimitS);
    int64_t before = now_ns();
    std::atomic_ref<uint32_t>(*asked).store(static_cast<uint32_t>(i + 1),
                                            std::memory_order_release);
    uint64_t read = 0;
    for (unsigned looks = 1; (read = answer.load(std::memory_order_acquire)) == 0 && answered;
         ++looks) {
      answered = !deadline.passed();
      if (looks % kLooksPerYield == 0) sched_yield();
    }
    if (answered) samples.push_back({before, static_cast<int64_t>(read), now_ns()});
  }
  // Lets the kernel end before the memory goes that it reads, also if an answer is missing.
  std::atomic_ref<uint32_t>(*asked).store(static_cast<uint32_t>(rounds), std::memory_order_release);
  Deadline ending(kLimitS);
  while (!device.idle(stream.get())) {
    if (ending.passed()) throw Error("the kernel that reads the device's clock does not end");
  }
  if (!answered) throw Error("the device did not answer with its clock within 10 s");
  return samples;
}

}  // namespace cclmark
