#pragma once

#include <memory>
#include <utility>

#include "ccl/communicator.hpp"

namespace cclmark {

/// A call created from a closure, so that each operation of a library is a few lines.
template <typename Body>
class CallOf final : public Call {
 public:
  explicit CallOf(Body body) : body_(std::move(body)) {}
  void enqueue(const void* send, void* receive) override { body_(send, receive); }

 private:
  Body body_;
};

template <typename Body>
std::unique_ptr<Call> make_call(Body body) {
  return std::make_unique<CallOf<Body>>(std::move(body));
}

}  // namespace cclmark
