#include "measure/captured_graph.hpp"

#include <string>

namespace cclmark {

/// Rethrows the error that ended a capture. An error of a library or a device is converted to
/// UnsupportedError, because the operations can still be measured without a graph.
[[noreturn]] static void rethrow_as_uncaptured() {
  try {
    throw;
  } catch (const Error& error) {
    bool ends_run = dynamic_cast<const TimeoutError*>(&error) != nullptr ||
                    dynamic_cast<const AbortedError*>(&error) != nullptr;
    if (ends_run) throw;
    throw UnsupportedError(std::string("operations were not captured in a graph: ") + error.what());
  }
}

void CapturedGraph::capture(size_t operations, const std::function<void()>& enqueue) {
  drop();
  uint64_t entered = counter_.entered();
  try {
    device_.begin_capture(stream_);
    enqueue();
    graph_ = device_.end_capture(stream_);
  } catch (...) {
    device_.abandon_capture(stream_);
    counter_.take_back_to(entered);
    rethrow_as_uncaptured();
  }
  operations_ = operations;
  is_uploaded_ = false;
  counter_.take_back_to(entered);
}

void CapturedGraph::drop() noexcept {
  if (graph_ != nullptr) device_.destroy_graph(graph_);
  graph_ = nullptr;
}

}  // namespace cclmark
