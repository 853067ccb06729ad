#pragma once

// What the fakes of libraries whose interface is not NCCL's have in common: each turns its own
// numbers and orders of arguments into the core's operations.

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "nccl/communicator.hpp"
#include "nccl/enqueue.hpp"
#include "nccl/faults.hpp"
#include "nccl/group.hpp"
#include "nccl/last_error.hpp"

namespace fake_shaped {

using fake_nccl::Dtype;
using fake_nccl::Failure;
using fake_nccl::Kind;
using fake_nccl::Operation;
using fake_nccl::Reduction;
using fake_nccl::require;

/// CCLMARK_FAKE_MISREAD names what the library takes for something else than the caller means: what
/// a caller with a mistake in this interface would see.
inline bool misreads(const char* argument) {
  const char* asked = std::getenv("CCLMARK_FAKE_MISREAD");
  return asked != nullptr && std::strcmp(asked, argument) == 0;
}

/// An id as the library hands it out: a control segment's, and bytes that follow from it up to its
/// end, so that whoever hands on less than all is noticed.
template <size_t bytes>
struct WholeId {
  fake_nccl::UniqueId control;
  std::array<char, bytes - sizeof(fake_nccl::UniqueId)> rest;

  static WholeId of(const fake_nccl::UniqueId& control) {
    WholeId id{control, {}};
    for (size_t i = 0; i < id.rest.size(); ++i) {
      id.rest[i] = static_cast<char>(control.bytes[i % sizeof(control)] + static_cast<char>(7 * i));
    }
    return id;
  }

  void require_whole() const {
    WholeId whole = of(control);
    if (misreads("id")) ++whole.rest.back();
    require(whole.rest == rest, fake_nccl::kInvalidArgument, "not all bytes of the id came");
  }
};

/// The rank that a caller means: a root, or a peer.
inline int rank_of(int rank, const void* comm) {
  int ranks = fake_nccl::communicator_behind(comm)->ranks();
  require(rank >= 0 && rank < ranks, fake_nccl::kInvalidArgument,
          "the root or peer is not a rank of the communicator");
  return misreads("root") ? (rank + 1) % ranks : rank;
}

inline Reduction reduction_of(int known, int reductions) {
  return static_cast<Reduction>(misreads("op") ? (known + 1) % reductions : known);
}

/// A call on a communicator's stream. Raises Failure.
inline void submit(void* comm, void* stream, Kind kind, const void* send, void* receive,
                   size_t count, Dtype dtype, Reduction reduction = Reduction::sum, int root = 0) {
  Operation operation;
  operation.kind = kind;
  operation.send = static_cast<const std::byte*>(send);
  operation.receive = static_cast<std::byte*>(receive);
  operation.count = count;
  operation.dtype = dtype;
  operation.reduction = reduction;
  operation.root = root;
  int code = fake_nccl::enqueue(comm, stream, operation);
  if (code != fake_nccl::kSuccess) {
    throw Failure{static_cast<fake_nccl::Result>(code), fake_nccl::last_error()};
  }
}

/// Sends and receives that do not wait for each other.
template <typename Body>
void together(Body body) {
  fake_nccl::start_group();
  try {
    body();
  } catch (...) {
    fake_nccl::spoil_group({fake_nccl::kInvalidArgument, "a part is wrong"});
    fake_nccl::guarded([] { fake_nccl::end_group(); });
    throw;
  }
  fake_nccl::end_group();
}

/// What a library refuses with a code of its own.
struct Refusal {
  int code;
  std::string text;
};

/// Runs the body of an API function. These libraries give no words beyond the code's: they write
/// them down, as the real ones do in their logs.
template <typename Body>
int told(const char* library, int (*code_of)(int), Body body) noexcept {
  int code = 0;
  try {
    body();
    return 0;
  } catch (const Refusal& refusal) {
    fake_nccl::set_last_error(refusal.text);
    code = refusal.code;
  } catch (const Failure& failure) {
    fake_nccl::set_last_error(failure.text);
    code = code_of(failure.code);
  }
  std::fprintf(stderr, "[%s] %s\n", library, fake_nccl::last_error());
  return code;
}

}  // namespace fake_shaped
