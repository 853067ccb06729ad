#include "nccl/group.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace fake_nccl {
namespace {

struct Batch {
  std::shared_ptr<Communicator> communicator;
  void* stream;
  std::vector<Operation> operations;
};

struct Group {
  int depth = 0;
  std::optional<Failure> failure;
  std::vector<Batch> batches;  ///< one for each communicator
};
thread_local Group group;

void run_batch(void* argument) {
  auto batch = static_cast<Batch*>(argument);
  batch->communicator->run(batch->operations);
}

void destroy_batch(void* argument) {
  delete static_cast<Batch*>(argument);
}

void launch(Batch batch) {
  batch.communicator->plugins().report(batch.operations);
  auto owned = std::make_unique<Batch>(std::move(batch));
  Runtime::instance().enqueue(owned->stream, run_batch, owned.get(), destroy_batch);
  owned.release();
}

}  // namespace

void start_group() {
  ++group.depth;
}

void end_group() {
  require(group.depth > 0, kInvalidUsage, "GroupEnd without GroupStart");
  if (--group.depth > 0) return;
  Group ended = std::exchange(group, {});
  if (ended.failure) throw *ended.failure;
  for (Batch& batch : ended.batches) launch(std::move(batch));
}

bool in_group() {
  return group.depth > 0;
}

void spoil_group(const Failure& failure) {
  if (in_group() && !group.failure) group.failure = failure;
}

void submit(const std::shared_ptr<Communicator>& communicator, void* stream,
            const Operation& operation) {
  if (!in_group()) return launch({communicator, stream, {operation}});
  auto batch = std::find_if(group.batches.begin(), group.batches.end(),
                            [&](const Batch& known) { return known.communicator == communicator; });
  if (batch == group.batches.end()) {
    group.batches.push_back({communicator, stream, {operation}});
    return;
  }
  require(batch->stream == stream, kInvalidUsage,
          "the fake keeps a group of one communicator to one stream");
  batch->operations.push_back(operation);
}

}  // namespace fake_nccl
