// The triad of the STREAM benchmark: a kernel whose speed is that of the memory.

#include "compute/compute.hpp"
#include "compute/mismatches.hpp"

namespace cclmark {
namespace {

#include "kernels/dialect.cu"
// before all of them
#include "kernels/compute.cu"

constexpr float kFactor = 3;
constexpr size_t kArrays = 3;

class Triad final : public Compute {
 public:
  Triad(Device& device, size_t bytes)
      : device_(device),
        quads_(bytes / sizeof(Quad)),
        triad_(device.kernel("cclmark_triad")),
        check_(device.kernel("cclmark_check_triad")),
        sum_(device, quads_ * sizeof(Quad)),
        first_(device, quads_ * sizeof(Quad)),
        second_(device, quads_ * sizeof(Quad)),
        mismatches_(device) {
    Stream stream(device);
    launch(device.kernel("cclmark_fill_triad"), stream.get());
    poison(stream.get());
    wait_until_idle(device, stream.get());
  }

  void enqueue(void* stream) override { launch(triad_, stream); }
  double work() const override { return static_cast<double>(kArrays * quads_ * sizeof(Quad)); }
  std::string implementation() const override { return "triad of the engine"; }

  void poison(void* stream) override {
    device_.fill_bytes(sum_.data(), 0xff, sum_.size_bytes(), stream);
  }

  ComputeFinding check(void* stream, const std::function<void()>& wait) override {
    mismatches_.reset(stream);
    launch(check_, stream);
    wait();
    Mismatches::Values values = mismatches_.read();
    ComputeFinding finding{.wrong = values.wrong};
    if (finding.wrong == 0) return finding;
    finding.first_element = values.first;
    finding.expected = triad_first(values.first) + kFactor * triad_second(values.first);
    float actual = 0;
    device_.copy_to_host(&actual, sum_.data() + values.first * sizeof(actual), sizeof(actual));
    finding.actual = static_cast<double>(actual);
    return finding;
  }

 private:
  void launch(const Kernel& kernel, void* stream) {
    TriadArguments arguments{};
    arguments.sum = reinterpret_cast<float*>(sum_.data());
    arguments.first = reinterpret_cast<float*>(first_.data());
    arguments.second = reinterpret_cast<float*>(second_.data());
    arguments.quads = quads_;
    arguments.factor = kFactor;
    arguments.wrong_count = mismatches_.count();
    arguments.first_wrong = mismatches_.first();
    device_.launch(kernel, &arguments, quads_, stream);
  }

  Device& device_;
  size_t quads_;
  const Kernel& triad_;
  const Kernel& check_;
  Buffer sum_, first_, second_;
  Mismatches mismatches_;
};

}  // namespace

std::unique_ptr<Compute> make_triad(Device& device, size_t bytes) {
  return std::make_unique<Triad>(device, bytes);
}

}  // namespace cclmark
