#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace cclmark {

/// Why something failed, in words that a user can act on: the call that failed, the vendor's own
/// code and text, and on which rank and device it happened.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;

  static std::string describe(std::string_view call, long code, std::string_view text) {
    std::string message(call);
    message += " failed: ";
    message += text.empty() ? std::string_view("no text given") : text;
    message += " (code " + std::to_string(code) + ")";
    return message;
  }
};

/// A library, a symbol or a device is missing on this machine.
class MissingError : public Error {
 public:
  using Error::Error;
};

/// The library or device does not support the request: the case is skipped with this reason.
class UnsupportedError : public Error {
 public:
  using Error::Error;
};

/// A library refused the arguments of a call before it began any work, and has no other code for
/// what it does not support. Where the first call of an operation is refused, the operation is not
/// supported; in any other place this is a failure.
class RefusedError : public Error {
 public:
  using Error::Error;
};

/// There is not enough device memory for the requested buffers.
class OutOfMemoryError : public Error {
 public:
  using Error::Error;
};

/// A setting of the user is invalid.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A wait reached its deadline.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

/// Another rank failed, so this one stopped waiting.
class AbortedError : public Error {
 public:
  using Error::Error;
};

}  // namespace cclmark
