#pragma once

#include "nccl/operation.hpp"

namespace fake_nccl {

class Communicator;

/// Does this rank's share of a collective, together with the others. Raises Stopped or Failure.
void run_collective(Communicator& communicator, const Operation& operation);

/// Flips the element that was asked for, if the operation has one.
void corrupt_if_asked(const Operation& operation, int rank, int ranks);

}  // namespace fake_nccl
