#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/descriptors.hpp"
#include "core/team.hpp"
#include "device/device.hpp"

namespace cclmark {

/// The memory that transfers go between: on every device a source, places to land, and scratch.
///
/// A process holds one device or all of them. Devices are numbered over all processes, in the order
/// of the ranks. Other processes' memory is opened when it is first asked for, so that a matrix
/// over many devices costs no more than the pairs it measures.
class Exchange {
 public:
  /// `devices`: this process's, as many as in every other process of the team.
  Exchange(std::vector<Device*> devices, Team& team);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Makes room for sources of `bytes` and `landings` places of as many bytes on each device. A
  /// collective call. Raises OutOfMemoryError on every rank when one of them is short of memory,
  /// UnsupportedError when one cannot share its own.
  void reserve(size_t bytes, size_t landings);

  int devices() const { return own_count() * team_.size(); }
  bool owns(int device) const { return first_ <= device && device < first_ + own_count(); }
  Device& device(int number) const { return *own_[static_cast<size_t>(number - first_)]; }
  int first() const { return first_; }
  int own_count() const { return static_cast<int>(own_.size()); }
  size_t capacity_bytes() const { return bytes_; }
  size_t landings() const { return landings_; }

  /// Where `device`'s memory lies for `user`, one of this process's devices, which may differ from
  /// its own address when it is another process's.
  std::byte* source(int user, int device);
  std::byte* landing(int user, int device, size_t place);
  std::byte* scratch(int user, int device);
  static constexpr size_t kScratchBytes = (size_t{2} << 20) + 4096;

 private:
  std::byte* base(int user, int device);
  void announce();
  void close_others() noexcept;
  void release() noexcept;

  std::vector<Device*> own_;
  Team& team_;
  int first_;
  size_t bytes_ = 0;
  size_t stride_ = 0;
  size_t landings_ = 0;
  std::vector<std::byte*> blocks_;       ///< of own devices
  std::vector<SharedMemory> shared_;     ///< of all devices, where there are other processes
  std::vector<Descriptor> descriptors_;  ///< what the shared memory's refer to
  std::map<std::pair<int, int>, std::byte*> opened_;  ///< by user and device
};

}  // namespace cclmark
