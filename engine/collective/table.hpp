#pragma once

#include <cstddef>
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

/// One row of the table of collectives. Sizes are in elements, `n` is the number of ranks.
struct CollectiveInfo {
  Collective collective;
  bool reduces;
  /// In place, input and output overlap in a way that libraries leave undefined: the input is first
  /// copied aside, and that copy is part of the time.
  bool staged_in_place;
  size_t (*send_count)(const Operation&, int rank, int n);
  size_t (*receive_count)(const Operation&, int rank, int n);
  /// In place: where in the shared buffer the input and the output begin.
  size_t (*send_offset)(const Operation&, int rank, int n);
  size_t (*receive_offset)(const Operation&, int rank, int n);
  /// What the output of `rank` must hold.
  std::vector<Segment> (*expected)(const Operation&, int rank, int n);
};

const CollectiveInfo& info(Collective collective);

}  // namespace cclmark
