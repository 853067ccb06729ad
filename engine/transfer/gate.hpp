#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "device/device.hpp"

namespace cclmark {

/// How streams are held until all copies are enqueued, so that launches are not part of their time.
enum class GateKind : uint8_t {
  automatic,      ///< the first of the following that works
  stream_wait,    ///< the streams wait for a word of host memory
  host_function,  ///< a host function waits on each stream
  events,         ///< not held: copies are between two events, with the launch of the first ones
};

/// Holds streams of the devices of this process.
class Gate {
 public:
  /// `owner`: allocates the word that streams wait for.
  explicit Gate(Device& owner);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  GateKind kind() const { return kind_; }
  bool holds() const { return kind_ != GateKind::events; }
  /// Raises UnsupportedError with the reason unless streams of `device` can be held in this way and
  /// go on when the gate is opened: both are tried.
  void require(GateKind kind, Device& device);
  void use(GateKind kind) { kind_ = kind; }

  /// `limit_s`: how long a host function waits, at most 15 s.
  void close(double limit_s);
  void open();
  /// What is enqueued on the stream afterwards begins when the gate is open.
  void hold(Device& device, void* stream) { hold(kind_, device, stream); }
  /// Whether a host function ended before the gate was opened: some call did not return
  /// while the stream was held.
  bool gave_up() const { return waiting_->gave_up; }

 private:
  /// The state of the host functions. They may end after this object.
  struct Waiting {
    std::atomic<bool> is_open = true;
    std::atomic<bool> gave_up = false;
    std::atomic<int> functions = 0;
    double limit_s = 0;
  };
  static void wait(void* waiting);
  void hold(GateKind kind, Device& device, void* stream);
  void drain() noexcept;

  Device& owner_;
  GateKind kind_ = GateKind::stream_wait;
  uint32_t* word_;
  std::unique_ptr<Waiting> waiting_ = std::make_unique<Waiting>();
};

}  // namespace cclmark
