#pragma once

#include <string>

#include "selftest/harness.hpp"
#include "selftest/libraries.hpp"

namespace selftest {

struct UniqueId {
  char bytes[128];
};

/// Runs `body` in `ranks` processes that know one unique id. The process that made it, which has to
/// live on while they join, is rank 0.
class Rank;
void run_ranks(const std::string& name, int ranks, const std::string& library,
               const std::function<void(Rank&)>& body);

/// One rank of a communicator of the fake NCCL, on the device of its number.
class Rank {
 public:
  Rank(int rank, int ranks, const std::string& library, const UniqueId& id);

  /// Calls a function that has to succeed; its last arguments are the communicator and the stream.
  template <typename... Arguments>
  void operator()(const char* symbol, Arguments... arguments) const {
    CHECK_EQUAL(call(symbol, arguments...), 0);
  }
  /// The same, whatever the result.
  template <typename... Arguments>
  int call(const char* symbol, Arguments... arguments) const {
    return nccl(symbol, arguments..., comm, gpu.stream);
  }
  int async_error() const;
  std::string last_error() const;
  /// Waits until all ranks are here.
  void meet() const;

  const int rank;
  const int ranks;
  Gpu gpu;
  Library nccl;
  void* comm = nullptr;
  int join_result = 0;

 private:
  void* word_;
};

}  // namespace selftest
