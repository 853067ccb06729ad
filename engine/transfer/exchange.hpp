#pragma once

#include <utility>
#include <vector>

#include "core/rank_group.hpp"
#include "device/device.hpp"
#include "device/peer_blocks.hpp"

namespace cclmark {

/// The memory of transfers: on every device a source, landing places, and scratch.
/// Devices are numbered as PeerBlocks does it.
class Exchange {
 public:
  /// `devices`: this process's, as many as in every other process of the rank group.
  Exchange(std::vector<Device*> devices, RankGroup& rank_group)
      : blocks_(std::move(devices), rank_group, PeerBlocks::Reach::all_hosts) {}

  /// Makes room for sources of `bytes` and `landings` places of as many bytes on each device. A
  /// collective call, which raises what PeerBlocks::reserve does.
  void reserve(size_t bytes, size_t landings);

  int devices() const { return blocks_.devices(); }
  bool owns(int device) const { return blocks_.owns(device); }
  Device& device(int number) const { return blocks_.device(number); }
  int first() const { return blocks_.first(); }
  int own_count() const { return blocks_.own_count(); }
  size_t capacity_bytes() const { return bytes_; }
  size_t landings() const { return landings_; }

  /// Where `device`'s memory lies for `user`, as PeerBlocks::at has it.
  std::byte* source(int user, int device);
  std::byte* landing(int user, int device, size_t place);
  std::byte* scratch(int user, int device);
  static constexpr size_t kScratchBytes = (size_t{2} << 20) + 4096;

 private:
  PeerBlocks blocks_;
  size_t bytes_ = 0;
  size_t stride_ = 0;
  size_t landings_ = 0;
};

}  // namespace cclmark
