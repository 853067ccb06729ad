#pragma once

#include <cstddef>
#include <memory>

#include "nccl/communicator.hpp"
#include "nccl/operation.hpp"

namespace fake_nccl {

/// Memory of the library's own, as symmetric windows need it. Raises Failure.
void* allocate_memory(size_t bytes);
/// Raises Failure for other memory and for memory that is still registered.
void release_memory(void* memory);

/// Registrations of buffers with one communicator. Raise Failure.
void* register_buffer(const std::shared_ptr<Communicator>& communicator, void* memory,
                      size_t bytes);
/// A call of all ranks, which have to give the same size.
void* register_window(const std::shared_ptr<Communicator>& communicator, void* memory, size_t bytes,
                      int flags);
void deregister_buffer(const std::shared_ptr<Communicator>& communicator, const void* handle);
void deregister_window(const std::shared_ptr<Communicator>& communicator, const void* handle);

/// Writes the line of NCCL's log about a registration if the operation uses registered buffers:
/// those that the program registered, or in a captured graph memory of the library.
void log_registration(const std::shared_ptr<Communicator>& communicator, void* stream,
                      const Operation& operation);

/// Drops what is registered with a communicator that ends.
void forget_registrations(const std::shared_ptr<Communicator>& communicator);

}  // namespace fake_nccl
