#pragma once

#include <cstddef>
#include <functional>

#include "core/counter.hpp"
#include "device/device.hpp"

namespace cclmark {

/// Operations captured in a graph of a device's stream, which one call launches together.
class CapturedGraph {
 public:
  CapturedGraph(Device& device, void* stream, OperationCounter& counter)
      : device_(device), stream_(stream), counter_(counter) {}
  ~CapturedGraph() { drop(); }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  /// Whether the graph contains exactly so many operations.
  bool holds(size_t operations) const { return graph_ != nullptr && operations_ == operations; }

  /// Replaces the graph by the `operations` that `enqueue` enqueues; nothing is executed, and the
  /// counter does not change. Raises UnsupportedError if the library or the device refuses.
  void capture(size_t operations, const std::function<void()>& enqueue);
  void drop() noexcept;

  /// Whether the graph was launched and waited for, as reported with set_uploaded(): its first
  /// launch also uploads it.
  bool is_uploaded() const { return is_uploaded_; }
  void set_uploaded() { is_uploaded_ = true; }

  /// Enqueues all operations of the graph.
  void launch() {
    counter_.enter(operations_);
    device_.launch_graph(graph_, stream_);
  }

 private:
  Device& device_;
  void* stream_;
  OperationCounter& counter_;
  void* graph_ = nullptr;
  size_t operations_ = 0;
  bool is_uploaded_ = false;
};

}  // namespace cclmark
