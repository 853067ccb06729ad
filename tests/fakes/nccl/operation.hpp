#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "nccl/abi.hpp"
#include "nccl/runtime.hpp"

namespace fake_nccl {

enum class Kind : int {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  alltoall,
  gather,
  scatter,
  send,
  receive,
};
/// As in the name of the function.
const char* name(Kind kind);
bool reduces(Kind kind);
constexpr bool is_point_to_point(Kind kind) {
  return kind == Kind::send || kind == Kind::receive;
}

/// One call of a rank, as it waits on a stream.
struct Operation {
  Kind kind{};
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
  size_t count = 0;
  Dtype dtype{};
  Reduction reduction{};
  int root = 0;  ///< the peer, for send and receive

  Place send_place{};
  Place receive_place{};
  bool hangs = false;                     ///< injected
  std::chrono::microseconds delay{};      ///< injected
  std::optional<size_t> corrupt_element;  ///< injected

  /// How many elements `rank` of `ranks` reads and writes; none where NCCL ignores the pointer.
  size_t send_count(int rank, int ranks) const;
  size_t receive_count(int rank, int ranks) const;
};

/// Checks what the caller gave and finds its memory. Raises Failure.
void prepare(Operation& operation, int rank, int ranks, int architecture);

}  // namespace fake_nccl
