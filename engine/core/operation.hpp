#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"

namespace cclmark {

enum class Collective : uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  alltoall,
  alltoallv,
  gather,
  scatter,
  sendrecv,
  send,
  ping_pong,
  barrier,
};

inline constexpr std::array<std::string_view, 13> kCollectives = {
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",    "alltoall", "alltoallv",
    "gather",     "scatter",    "sendrecv",       "send",      "ping_pong", "barrier"};

inline std::string_view name(Collective collective) {
  return kCollectives[static_cast<size_t>(collective)];
}

inline Collective parse_collective(std::string_view text) {
  for (size_t i = 0; i < kCollectives.size(); ++i) {
    if (kCollectives[i] == text) return static_cast<Collective>(i);
  }
  throw Error("unknown collective " + std::string(text));
}

/// A collective with all its parameters but the buffers.
struct Operation {
  Collective collective = Collective::all_reduce;
  Dtype dtype = Dtype::float32;
  Reduction reduction = Reduction::sum;
  int root = 0;
  /// Elements, as NCCL counts them: per rank for all_reduce, broadcast, reduce, sendrecv, send and
  /// ping_pong; per rank and peer for all_gather, reduce_scatter, alltoall, gather and scatter.
  size_t count = 0;
  /// alltoallv only: elements that rank i sends to rank j at [i * ranks + j].
  std::vector<size_t> matrix;

  bool operator==(const Operation&) const = default;

  size_t part(int from, int to, int ranks) const {
    return matrix[static_cast<size_t>(from) * static_cast<size_t>(ranks) + static_cast<size_t>(to)];
  }
};

/// Where the parts of one rank's alltoallv lie in its buffers, in elements.
struct UnevenParts {
  std::vector<size_t> send_counts, send_offsets, receive_counts, receive_offsets;

  UnevenParts(const Operation& operation, int rank, int ranks) {
    size_t sent = 0, received = 0;
    for (int peer = 0; peer < ranks; ++peer) {
      send_counts.push_back(operation.part(rank, peer, ranks));
      receive_counts.push_back(operation.part(peer, rank, ranks));
      send_offsets.push_back(sent);
      receive_offsets.push_back(received);
      sent += send_counts.back();
      received += receive_counts.back();
    }
  }
};

}  // namespace cclmark
