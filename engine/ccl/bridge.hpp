#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ccl/communicator.hpp"

namespace cclmark {

/// How the ranks of a team fall into islands, each with a library of its own.
struct Islands {
  /// The first rank of each island, ascending from 0: islands are ranks in a row.
  std::vector<int> firsts;
  /// What lies between islands goes through host memory even where devices reach each other.
  bool through_host = false;
};

/// One group of all ranks of a host, made of its islands. A collective call.
///
/// `own`: this rank's island, joined by its ranks in their order; nullptr where it is alone there.
/// It has to outlive the result. Raises Error for islands that are none, OutOfMemoryError.
std::unique_ptr<Communicator> join_islands(Device& device, Team& team, const Islands& islands,
                                           Communicator* own);

}  // namespace cclmark
