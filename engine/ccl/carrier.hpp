#pragma once

#include <cstddef>
#include <cstdint>

namespace cclmark {

/// Takes bytes between ranks that share no memory.
///
/// Calls return at once, and no two are made at the same time; what was begun moves on while done()
/// is asked. From one rank to another messages arrive in the order in which they were sent, each in
/// the place that was given next; its label has to be the one that was given there.
class Carrier {
 public:
  virtual ~Carrier() = default;

  /// Begins to send, or to receive exactly so many bytes. The memory has to stay until it is done.
  /// Returns a number for done(). Raises Error.
  virtual size_t send(int to, uint32_t label, const std::byte* data, size_t bytes) = 0;
  virtual size_t receive(int from, uint32_t label, std::byte* data, size_t bytes) = 0;

  /// Whether that is done: what was sent is being taken, so that nobody runs ahead of who takes it.
  /// The number goes to something else afterwards. Raises Error.
  virtual bool done(size_t number) = 0;

  /// To be called now and then where nothing is asked for: what was sent may lie in memory of the
  /// library's own, which takes it along while it is called. Raises Error.
  virtual void keep_going() = 0;
};

}  // namespace cclmark
