#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace fake_cuda {

using DevicePairs = std::vector<std::pair<int, int>>;

/// What the environment says that this machine cannot do.
struct Faults {
  DevicePairs no_peer;    ///< devices without access to each other's memory
  DevicePairs copy_hang;  ///< from and to which device copies never end
  DevicePairs copy_fail;
  bool no_ipc;
  bool no_export;
  bool no_native_atomics;  ///< between devices, as by PCIe
  bool other_driver;       ///< of another version than this library
  int lost_device;         ///< which nothing can use

  static Faults from_environment();
};

inline bool lists(const DevicePairs& pairs, int first, int second) {
  return std::find(pairs.begin(), pairs.end(), std::pair(first, second)) != pairs.end();
}

}  // namespace fake_cuda
