#pragma once

#include "nccl/operation.hpp"

namespace fake_nccl {

/// What all operations of the API do: checks everything, then submits. Returns a Result.
int enqueue(void* communicator, void* stream, Operation operation) noexcept;

}  // namespace fake_nccl
