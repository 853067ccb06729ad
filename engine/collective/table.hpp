#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/operation.hpp"

namespace cclmark {

/// Part of a rank's output and where its content comes from.
struct Segment {
  static constexpr int kReduced = -1;
  size_t output_element;
  size_t count;
  /// The rank whose input it is a copy of, or kReduced for the reduction over all ranks.
  int source;
  size_t source_element;
};

/// The composition of an operation in a library that has no function for it.
enum class Composition : uint8_t {
  nothing,     ///< it requires a function of the library
  exchange,    ///< a group of sends and receives, each rank with its peers
  ring,        ///< the same, with a neighbour to either side
  turns,       ///< a send and a receive, one after the other
  all_reduce,  ///< an all_reduce that moves next to nothing
};

/// One row of the table of collectives. Sizes are in elements, `n` is the number of ranks.
struct CollectiveInfo {
  Collective collective;
  bool reduces;
  /// One rank has a special part: Operation::root.
  bool rooted;
  /// Parts differ in size: Operation::matrix contains their sizes.
  bool uneven;
  /// In place, input and output overlap in a way that libraries leave undefined: the input is first
  /// copied aside, and that copy is part of the time.
  bool staged_in_place;
  /// Consecutive parts of the buffers of every rank are the same operation, with fewer elements.
  bool divisible;
  Composition composition;
  size_t (*send_count)(const Operation&, int rank, int n);
  size_t (*receive_count)(const Operation&, int rank, int n);
  /// In place: where in the shared buffer the input and the output begin.
  size_t (*send_offset)(const Operation&, int rank, int n);
  size_t (*receive_offset)(const Operation&, int rank, int n);
  /// The expected content of `rank`'s output.
  std::vector<Segment> (*expected)(const Operation&, int rank, int n);
};

const CollectiveInfo& info(Collective collective);

/// The elements that each rank sends to each other in an operation that only moves data, in the
/// form of an alltoallv's Operation::matrix: from rank i to rank j at [i * ranks + j].
std::vector<size_t> matrix_of(const Operation& operation, int ranks);

}  // namespace cclmark
