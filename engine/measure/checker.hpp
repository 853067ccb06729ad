#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collective/pattern.hpp"
#include "collective/table.hpp"
#include "device/device.hpp"

namespace cclmark {

/// The result of the check of one rank's output.
struct Finding {
  uint64_t wrong = 0;
  uint64_t first_element = 0;
  uint64_t expected_bits = 0;
  uint64_t actual_bits = 0;
};

/// What a check on the host does there, and when. Times are those of now_ns().
enum class HostWork : uint8_t {
  allocation,  ///< memory for a piece of the data, with its pages
  filling,     ///< values of inputs
  copy_to_device,
  copy_to_host,
  comparison,
  release,
};
struct HostPeriod {
  HostWork work;
  int64_t begin_ns;
  int64_t end_ns;
  size_t bytes;
};

/// Fills inputs and checks outputs: on the device where its kernels can be compiled and
/// check_on_host() was not called, else on the host.
class Checker {
 public:
  Checker(Device& device, void* stream, int rank, int ranks);

  /// Chooses what inputs and outputs hold from now on. Cheap when nothing changes.
  void choose(const Operation& operation, uint32_t seed);

  /// Writes this rank's input, from its first element on.
  void fill_input(std::byte* data, size_t bytes);
  /// Clears the counters; check() adds to them.
  void begin();
  /// Compares `segment` of the output at `output`; the stream must have finished writing it.
  void check(const std::byte* output, const Segment& segment);
  /// After the stream is idle.
  struct Count {
    uint64_t wrong;
    uint64_t first_element;
  };
  Count result();
  /// Enqueues a copy of the counters to memory of the device, for checks whose results are read
  /// later: after begin(), so that they are of one check. Only where checks run on the device.
  static constexpr size_t kSavedBytes = 16;
  void save(std::byte* to);
  Count saved(const std::byte* from) const;

  /// What element `offset` of `segment` should be, as bits.
  uint64_t expected_bits(const Segment& segment, size_t offset) const;

  const std::string& no_kernels() const { return no_kernels_; }
  /// What was done on the host since the last call, at most kMostPeriods.
  static constexpr size_t kMostPeriods = 4096;
  std::vector<HostPeriod> take_host_periods() { return std::exchange(host_periods_, {}); }

  /// The memory that holds patterns and results. Checks on the host also need a piece of the
  /// buffers there during a call.
  std::vector<MemoryBlock> memory_blocks() const;

 private:
  const Table& table(int source) const;
  const std::byte* device_table(int source) const;
  enum class Task : uint8_t { fill, compare };
  void run(Task task, std::byte* data, size_t bytes, int source, size_t source_element,
           size_t first_element);
  void run_on_host(Task task, std::byte* data, size_t bytes, int source, size_t source_element,
                   size_t first_element);
  template <typename Action>
  void period(HostWork work, size_t bytes, const Action& action);

  Device& device_;
  void* stream_;
  int rank_;
  int ranks_;
  const Kernel* fill_ = nullptr;
  const Kernel* verify_ = nullptr;
  std::string no_kernels_;

  Operation operation_;
  uint32_t seed_ = 0;
  std::string chosen_;
  /// Reductions: own input and the result. Otherwise: the input of every rank.
  std::vector<Table> tables_;
  Buffer device_tables_;
  Buffer counters_;
  Count host_count_{};
  size_t host_chunk_bytes_ = 0;  ///< the largest piece so far
  std::vector<HostPeriod> host_periods_;
};

}  // namespace cclmark
