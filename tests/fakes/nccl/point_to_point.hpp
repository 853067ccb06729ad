#pragma once

#include <vector>

#include "nccl/operation.hpp"

namespace fake_nccl {

class Communicator;

/// Does sends and receives that were enqueued together, all of them at once; those of one pair of
/// ranks match in order. Raises Stopped or Failure.
void run_exchange(Communicator& communicator, const std::vector<Operation>& operations);

}  // namespace fake_nccl
