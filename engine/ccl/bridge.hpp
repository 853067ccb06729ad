#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ccl/communicator.hpp"
#include "ccl/host_exchange.hpp"

namespace cclmark {

/// The partition of a rank group's ranks into islands, each with its own library.
struct Islands {
  /// The first rank of each island, ascending from 0: the ranks of an island are consecutive.
  std::vector<int> firsts;
  /// Data between islands goes through host memory even if devices reach each other.
  bool through_host = false;
};

/// Creates one group of all ranks from its islands. A collective call.
///
/// `own`: this rank's island, joined by its ranks in their order; nullptr if the rank is alone.
/// `host_exchange`: between hosts; nullptr if all ranks are on one. Both must outlive the result.
/// Raises Error for invalid islands and for several hosts without `host_exchange`,
/// OutOfMemoryError.
std::unique_ptr<Communicator> join_islands(Device& device, RankGroup& rank_group,
                                           const Islands& islands, Communicator* own,
                                           HostExchange* host_exchange = nullptr);

}  // namespace cclmark
