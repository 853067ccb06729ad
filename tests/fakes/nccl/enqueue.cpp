#include "nccl/enqueue.hpp"

#include "nccl/communicator.hpp"
#include "nccl/faults.hpp"
#include "nccl/group.hpp"
#include "nccl/last_error.hpp"
#include "nccl/registration.hpp"

namespace fake_nccl {
namespace {

void check_and_submit(void* handle, void* stream, Operation operation) {
  std::shared_ptr<Communicator> communicator = communicator_behind(handle);
  int rank = communicator->rank();
  const char* call = name(operation.kind);
  fail_if_asked(rank, call);
  take_time_if_asked();
  communicator->connect();
  if (Result state = communicator->async_error(); state != kSuccess) {
    throw Failure{state, std::string("the communicator has failed before: ") + last_error()};
  }
  prepare(operation, rank, communicator->ranks(), communicator->architecture());
  operation.delay += asked_to_take();
  operation.hangs = asked_to_hang(rank, call);
  operation.corrupt_element = asked_to_corrupt(rank, call);
  // As in NCCL: with nothing to move, nobody waits for anybody.
  if (operation.count == 0) return;
  log_registration(communicator, stream, operation);
  submit(communicator, stream, operation);
}

}  // namespace

int enqueue(void* communicator, void* stream, Operation operation) noexcept {
  return guarded([&] {
    try {
      check_and_submit(communicator, stream, operation);
    } catch (const Failure& failure) {
      spoil_group(failure);
      throw;
    }
  });
}

}  // namespace fake_nccl
