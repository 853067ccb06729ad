#pragma once

#include <map>
#include <utility>
#include <vector>

#include "core/descriptors.hpp"
#include "core/team.hpp"
#include "device/device.hpp"

namespace cclmark {

/// A block of memory on each device of a team, which the devices of other processes may use.
///
/// A process holds one device or more, each process as many. Devices are numbered over all
/// processes, in the order of the ranks. Other processes' memory is opened when it is first asked
/// for, so that a matrix over many devices costs no more than the pairs it measures.
class PeerBlocks {
 public:
  PeerBlocks(std::vector<Device*> devices, Team& team);
  ~PeerBlocks();
  PeerBlocks(const PeerBlocks&) = delete;
  PeerBlocks& operator=(const PeerBlocks&) = delete;

  /// Takes a block of `bytes` on each device, in place of what was there. A collective call. Raises
  /// OutOfMemoryError on every rank when one of them is short of memory, UnsupportedError when one
  /// cannot share its own.
  void reserve(size_t bytes);

  /// Gives all blocks back, once nobody has another's open: a driver may not free it before. A
  /// collective call.
  void leave();

  int devices() const { return own_count() * team_.size(); }
  bool owns(int device) const { return first_ <= device && device < first_ + own_count(); }
  Device& device(int number) const { return *own_[static_cast<size_t>(number - first_)]; }
  int first() const { return first_; }
  int own_count() const { return static_cast<int>(own_.size()); }

  /// Where `number`'s block lies for `user`, one of this process's devices, which may differ from
  /// its own address when it is another process's. Raises UnsupportedError.
  std::byte* at(int user, int number);

 private:
  void announce();
  void close_others() noexcept;
  void release() noexcept;

  std::vector<Device*> own_;
  Team& team_;
  int first_;
  std::vector<std::byte*> blocks_;       ///< of own devices
  std::vector<SharedMemory> shared_;     ///< of all devices, where there are other processes
  std::vector<Descriptor> descriptors_;  ///< what the shared memory's refer to
  std::map<std::pair<int, int>, std::byte*> opened_;  ///< by user and device
};

}  // namespace cclmark
