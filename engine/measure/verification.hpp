#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ccl/communicator.hpp"
#include "collective/table.hpp"
#include "core/rank_group.hpp"
#include "device/device.hpp"
#include "measure/checker.hpp"
#include "measure/message_buffers.hpp"

namespace cclmark {

/// The outcome of a check: one finding per rank, and the time that the slowest device took to
/// compare the outputs with the expected values.
struct VerificationResult {
  std::vector<Finding> findings;
  double compare_s = 0;
};

/// Checks the output of one operation on every rank.
class Verification {
 public:
  Verification(Device& device, void* stream, RankGroup& rank_group, Communicator& communicator);

  /// Chooses the content of inputs and fills the buffers, which are divided for the operation.
  void prepare(const Operation& operation, uint32_t seed, MessageBuffers& buffers);

  /// Runs the operation once on a fresh input and a poisoned output in the first slot, and checks
  /// that output in full. A collective call. `run_once` returns when the operation is complete.
  /// `corrupt`: this element of this rank's output is inverted before the check.
  VerificationResult verify(const MessageBuffers& buffers, const std::function<void()>& run_once,
                            std::optional<size_t> corrupt);

  /// Why checks run on the host; empty when they run on the device.
  const std::string& on_host() const { return checker_.no_kernels(); }

  std::vector<HostPeriod> take_host_periods() { return checker_.take_host_periods(); }

  std::vector<MemoryBlock> memory_blocks() const { return checker_.memory_blocks(); }
  /// The first elements of this rank's input and of its expected output, in words; empty for an
  /// operation without data on this rank.
  std::string first_inputs(size_t bytes) const;
  std::string first_outputs() const;

 private:
  using Region = MessageBuffers::Region;

  void invert(const Region& output, size_t index);
  std::string first_of(const Segment& segment) const;
  Finding describe(const Checker::Count& count, const Region& output,
                   const std::vector<Segment>& segments);
  VerificationResult gather(const Finding& own, double compare_s);

  Device& device_;
  void* stream_;
  RankGroup& rank_group_;
  Communicator& communicator_;
  Event begin_, end_;  ///< of the comparison
  Checker checker_;
  Operation operation_;
};

}  // namespace cclmark
