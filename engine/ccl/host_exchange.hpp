#pragma once

#include <cstddef>
#include <cstdint>

namespace cclmark {

/// Exchanges bytes between ranks that share no memory, from and to host memory.
///
/// Calls return at once, and no two are concurrent; transfers progress inside done(). From one rank
/// to another, messages arrive in the order in which they were sent, each in the next receive
/// buffer, whose label must match.
class HostExchange {
 public:
  virtual ~HostExchange() = default;

  /// Starts to send, or to receive exactly so many bytes. The memory must remain valid until done()
  /// returns true. Returns a number for done(). Raises Error.
  virtual size_t send(int to, uint32_t label, const std::byte* data, size_t bytes) = 0;
  virtual size_t receive(int from, uint32_t label, std::byte* data, size_t bytes) = 0;

  /// Whether the transfer is done. A send completes only when the receiver takes it, so that a
  /// sender cannot run ahead. The number is reused afterwards. Raises Error.
  virtual bool done(size_t number) = 0;

  /// Must be called periodically when done() is not: sent data may be in the library's own memory,
  /// which progresses only inside its calls. Raises Error.
  virtual void keep_going() = 0;
};

}  // namespace cclmark
