#pragma once

#include <memory>

#include "nccl/communicator.hpp"

namespace fake_nccl {

// Groups belong to the calling thread.

void start_group();
/// Enqueues what the outermost group holds, as one batch for each communicator. Raises Failure,
/// also when a call inside has failed: nothing is enqueued then.
void end_group();
bool in_group();
/// A group with a call in it that failed is lost.
void spoil_group(const Failure& failure);

/// Enqueues an operation, or keeps it for the end of the group. Raises Failure.
void submit(const std::shared_ptr<Communicator>& communicator, void* stream,
            const Operation& operation);

}  // namespace fake_nccl
