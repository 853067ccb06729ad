#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "ccl/communicator.hpp"

namespace cclmark {

/// A group of ranks whose library has only a Python interface, for example torch.distributed.
///
/// `adapter` has bind(operation, stream), which returns two functions of two addresses: one called
/// once before the operation is timed there, one for each operation; and route(collective). All
/// raise the engine's own error types. begin_group() and end_group() enclose calls that are
/// launched as one; the first raises UnsupportedError if the library has no groups. Calls come with
/// the interpreter's lock released and acquire it.
class PythonCommunicator final : public Communicator {
 public:
  PythonCommunicator(nanobind::object adapter, Device& device);
  ~PythonCommunicator() override;

  std::unique_ptr<Call> bind(const Operation& operation, void* stream) override;
  std::string route(const Operation& operation) const override;
  void begin_group() override;
  void end_group() override;
  void* allocate(size_t bytes, Registration registration) override;
  void register_memory(void* memory, size_t bytes, Registration registration) override;
  void release(void* memory, Registration registration) noexcept override;
  std::string no_graphs() const override {
    return "graphs are not supported with torch.distributed";
  }

 private:
  nanobind::object adapter_;
  Device& device_;
};

}  // namespace cclmark
