#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ccl/carrier.hpp"
#include "ccl/communicator.hpp"

namespace cclmark {

/// The partition of a team's ranks into islands, each with its own library.
struct Islands {
  /// The first rank of each island, ascending from 0: the ranks of an island are consecutive.
  std::vector<int> firsts;
  /// Data between islands goes through host memory even if devices reach each other.
  bool through_host = false;
};

/// Creates one group of all ranks from its islands. A collective call.
///
/// `own`: this rank's island, joined by its ranks in their order; nullptr if the rank is alone.
/// `carrier`: between hosts; nullptr if all ranks are on one. Both must outlive the result.
/// Raises Error for invalid islands and for hosts without a carrier, OutOfMemoryError.
std::unique_ptr<Communicator> join_islands(Device& device, Team& team, const Islands& islands,
                                           Communicator* own, Carrier* carrier = nullptr);

}  // namespace cclmark
