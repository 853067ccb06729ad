#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/descriptors.hpp"
#include "core/rank_group.hpp"
#include "device/device.hpp"

namespace cclmark {

/// A block of memory on each device of a rank group, which the devices of other processes may
/// access.
///
/// Every process holds the same number of devices, at least one. Devices are numbered over all
/// processes, in the order of the ranks. Memory of another process is opened at its first use, so
/// that a matrix over many devices costs no more than the pairs that it measures.
class PeerBlocks {
 public:
  /// `reach`: whether ranks on other hosts access a block too, or those on its own host only.
  enum class Reach : uint8_t { own_host, all_hosts };
  PeerBlocks(std::vector<Device*> devices, RankGroup& rank_group, Reach reach = Reach::own_host);
  ~PeerBlocks();
  PeerBlocks(const PeerBlocks&) = delete;
  PeerBlocks& operator=(const PeerBlocks&) = delete;

  /// Releases the previous blocks and allocates a block of `bytes` on each device. A collective
  /// call. Raises an error on every rank: OutOfMemoryError if a rank is short of memory,
  /// UnsupportedError if a rank cannot share its memory.
  void reserve(size_t bytes);

  /// Releases all blocks, once no process has a block of another one open: before that, a driver
  /// may not free it. A collective call.
  void leave();

  int devices() const { return own_count() * rank_group_.size(); }
  bool owns(int device) const { return first_ <= device && device < first_ + own_count(); }
  Device& device(int number) const { return *own_[static_cast<size_t>(number - first_)]; }
  int first() const { return first_; }
  int own_count() const { return static_cast<int>(own_.size()); }

  /// The address of device `number`'s block for `user`, one of this process's devices. For a block
  /// of another process it may differ from the address there. Raises UnsupportedError.
  std::byte* at(int user, int number);

 private:
  [[noreturn]] void raise(double kind, int culprit, std::string reason);
  void announce();
  void close_others() noexcept;
  void release() noexcept;

  std::vector<Device*> own_;
  RankGroup& rank_group_;
  bool for_hosts_;
  int first_;
  std::vector<std::byte*> blocks_;       ///< of own devices
  std::vector<SharedMemory> shared_;     ///< of all devices, if there are other processes
  std::vector<Descriptor> descriptors_;  ///< owners of the descriptors in `shared_`
  std::map<std::pair<int, int>, std::byte*> opened_;  ///< by user and device
};

}  // namespace cclmark
