#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <utility>

#include "ccl/communicator.hpp"
#include "compute/compute.hpp"

namespace cclmark {

/// A group of ranks whose library has only a Python interface, for example torch.distributed.
///
/// `adapter` has bind(operation, stream), which returns two functions of two addresses: one called
/// once before the operation is timed there, one for each operation; and route(collective). All
/// raise the engine's own error types. begin_group() and end_group() enclose calls that are
/// launched as one; the first raises UnsupportedError if the library has no groups. own_stream is
/// None, or has record(mark), elapsed_s(from, to) and synchronize() of an OwnStream. Calls come
/// with the interpreter's lock released and acquire it.
class PythonCommunicator final : public Communicator {
 public:
  /// With the interpreter's lock held.
  explicit PythonCommunicator(nanobind::object adapter);
  ~PythonCommunicator() override;

  std::unique_ptr<Call> bind(const Operation& operation, void* stream) override;
  std::string route(const Operation& operation) const override;
  void begin_group() override;
  void end_group() override;
  std::string no_registration(Registration registration) const override;
  OwnStream* own_stream() override { return own_stream_.get(); }
  std::string no_graphs() const override {
    return "graphs are not supported with torch.distributed";
  }

 private:
  nanobind::object adapter_;
  std::unique_ptr<OwnStream> own_stream_;
};

/// Work of a library that has only a Python interface. `adapter` has work, implementation and path;
/// enqueue(stream) and poison(stream); and check(), which is called when the stream is idle and
/// returns the members of a ComputeFinding.
class PythonCompute final : public Compute {
 public:
  explicit PythonCompute(nanobind::object adapter) : adapter_(std::move(adapter)) {}
  ~PythonCompute() override;

  void enqueue(void* stream) override;
  double work() const override;
  std::string implementation() const override;
  std::string path() const override;
  void poison(void* stream) override;
  ComputeFinding check(void* stream, const std::function<void()>& wait) override;

 private:
  nanobind::object adapter_;
};

/// Memory that a Python object allocates: `allocate(bytes)` returns an address and raises the
/// engine's own error types, `release(address)` frees it.
class PythonMemory final : public MemorySource {
 public:
  explicit PythonMemory(nanobind::object allocator) : allocator_(std::move(allocator)) {}
  ~PythonMemory() override;

  void* allocate(size_t bytes) override;
  void release(void* memory) noexcept override;

 private:
  nanobind::object allocator_;
};

}  // namespace cclmark
