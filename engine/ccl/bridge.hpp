#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ccl/carrier.hpp"
#include "ccl/communicator.hpp"

namespace cclmark {

/// How the ranks of a team fall into islands, each with a library of its own.
struct Islands {
  /// The first rank of each island, ascending from 0: islands are ranks in a row.
  std::vector<int> firsts;
  /// What lies between islands goes through host memory even where devices reach each other.
  bool through_host = false;
};

/// One group of all ranks, made of its islands. A collective call.
///
/// `own`: this rank's island, joined by its ranks in their order; nullptr where it is alone there.
/// `carrier`: between hosts; nullptr where all ranks are on one. Both have to outlive the result.
/// Raises Error for islands that are none and for hosts without a carrier, OutOfMemoryError.
std::unique_ptr<Communicator> join_islands(Device& device, Team& team, const Islands& islands,
                                           Communicator* own, Carrier* carrier = nullptr);

}  // namespace cclmark
