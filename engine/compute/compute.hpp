#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "device/device.hpp"

namespace cclmark {

/// The outcome of a check: the number of wrong elements, and the first of them.
struct ComputeFinding {
  size_t wrong = 0;
  size_t first_element = 0;
  double expected = 0;
  double actual = 0;
};

/// Work of one device that needs no other rank, measured beside a collective.
class Compute {
 public:
  virtual ~Compute() = default;

  /// Enqueues one operation. Every operation writes the same output.
  virtual void enqueue(void* stream) = 0;
  /// The floating-point operations of one operation, or the bytes that it moves.
  virtual double work() const = 0;
  /// The implementation with its version, for example "cuBLASLt 12.8.4".
  virtual std::string implementation() const = 0;
  /// The file of the implementation, empty for the engine's own.
  virtual std::string path() const { return ""; }

  /// Overwrites the output with another value.
  virtual void poison(void* stream) = 0;
  /// Compares the output in full with the expected one. `wait`: returns when `stream` is idle.
  virtual ComputeFinding check(void* stream, const std::function<void()>& wait) = 0;
};

/// The product of two square matrices with `order` rows: bfloat16 through cuBLASLt on CUDA devices,
/// float32 by a blocked loop on the host. Raises MissingError, UnsupportedError, OutOfMemoryError.
std::unique_ptr<Compute> make_product(Device& device, size_t order);
/// The memory of a product in bytes on a device of this runtime. Raises UnsupportedError.
size_t product_bytes(const Device& device, size_t order);

/// The triad of the STREAM benchmark on three arrays of `bytes` each, rounded down to 16 bytes.
/// Raises MissingError, UnsupportedError, OutOfMemoryError.
std::unique_ptr<Compute> make_triad(Device& device, size_t bytes);

}  // namespace cclmark
