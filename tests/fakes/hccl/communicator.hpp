#pragma once

#include <memory>

#include "hccl/abi.hpp"
#include "nccl/communicator.hpp"

namespace fake_hccl {

/// A communicator with the word that its barriers reduce.
struct HcclCommunicator {
  std::shared_ptr<fake_nccl::Communicator> communicator;
  void* word;
};

/// Raises Failure.
HcclCommunicator hccl_communicator_behind(const void* handle);

}  // namespace fake_hccl
