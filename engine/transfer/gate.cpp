#include "transfer/gate.hpp"

#include <time.h>

#include <algorithm>
#include <string>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/waiting.hpp"

namespace cclmark {
namespace {

constexpr double kTrialLimitS = 2;
constexpr double kHoldLimitS = 15;
constexpr long kTrialNs = 2'000'000;

bool ends(Device& device, void* stream, double limit_s) {
  Deadline deadline(limit_s);
  LongWait wait;
  while (!device.idle(stream)) {
    if (deadline.passed()) return false;
    wait.pause();
  }
  return true;
}

}  // namespace

Gate::Gate(Device& owner) : owner_(owner) {
  owner.activate();
  word_ = static_cast<uint32_t*>(owner.allocate_pinned(sizeof(uint32_t)));
  open();
}

Gate::~Gate() {
  open();
  drain();
  if (waiting_->functions > 0) static_cast<void>(waiting_.release());
  owner_.activate();
  owner_.release_pinned(word_);
}

void Gate::close(double limit_s) {
  waiting_->limit_s = std::min(limit_s, kHoldLimitS);
  waiting_->gave_up = false;
  waiting_->is_open.store(false, std::memory_order_release);
  std::atomic_ref<uint32_t>(*word_).store(0, std::memory_order_release);
}

void Gate::open() {
  waiting_->is_open.store(true, std::memory_order_release);
  std::atomic_ref<uint32_t>(*word_).store(1, std::memory_order_release);
}

void Gate::wait(void* waiting) {
  auto& own = *static_cast<Waiting*>(waiting);
  Deadline deadline(own.limit_s);
  LongWait pauses;
  while (!own.is_open.load(std::memory_order_acquire)) {
    if (!pauses.pause()) {
      relax_cpu();
    } else if (deadline.passed()) {
      own.gave_up = true;
      break;
    }
  }
  --own.functions;
}

/// Waits for the host functions, which end at once when the gate is open.
void Gate::drain() noexcept {
  Deadline deadline(kTrialLimitS);
  LongWait wait;
  while (waiting_->functions > 0 && !deadline.passed()) wait.pause();
}

void Gate::hold(GateKind kind, Device& device, void* stream) {
  if (kind == GateKind::stream_wait) {
    device.wait_for_flag(word_, 1, stream);
    return;
  }
  ++waiting_->functions;
  try {
    device.call_host(&Gate::wait, waiting_.get(), stream);
  } catch (...) {
    --waiting_->functions;
    throw;
  }
}

void Gate::require(GateKind kind, Device& device) {
  if (kind == GateKind::events) return;
  device.activate();
  auto stream = std::make_unique<Stream>(device);
  struct Opener {
    Gate& gate;
    ~Opener() { gate.open(); }
  } opener{*this};
  close(kTrialLimitS);
  hold(kind, device, stream->get());
  timespec a_while{0, kTrialNs};
  nanosleep(&a_while, nullptr);
  const char* what =
      kind == GateKind::stream_wait ? "a wait for a word of host memory" : "a host function";
  bool held = !device.idle(stream->get()) && !gave_up();
  open();
  if (!ends(device, stream->get(), kTrialLimitS)) {
    static_cast<void>(stream.release());  // its destruction would wait
    throw UnsupportedError(std::string(what) + " does not end on streams of " +
                           device.info().runtime);
  }
  if (!held) {
    throw UnsupportedError(std::string(what) + " does not hold streams of " +
                           device.info().runtime);
  }
}

}  // namespace cclmark
