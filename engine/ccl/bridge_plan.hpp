#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ccl/communicator.hpp"

namespace cclmark {

/// What kernels move at a time, where both ends begin at a multiple of it.
inline constexpr size_t kVectorBytes = 16;

/// How the ranks of a group lie in islands: ranks in a row, numbered from 0.
class IslandMap {
 public:
  /// `firsts`: the first rank of each island. Raises Error unless they ascend from 0 to below
  /// `ranks`, and are two or more.
  IslandMap(std::vector<int> firsts, int ranks);

  int ranks() const { return ranks_; }
  int islands() const { return static_cast<int>(firsts_.size()); }
  int first_of(int island) const { return firsts_[static_cast<size_t>(island)]; }
  int ranks_of(int island) const {
    auto next = static_cast<size_t>(island) + 1;
    return (next < firsts_.size() ? firsts_[next] : ranks_) - first_of(island);
  }
  int island_of(int rank) const;
  /// A rank's number in its island.
  int index_of(int rank) const { return rank - first_of(island_of(rank)); }

 private:
  std::vector<int> firsts_;
  int ranks_;
};

/// Something to take out of what a rank published. Offsets and sizes here are in bytes.
struct Take {
  int source;
  size_t at;  ///< in the source's slot
  size_t bytes;
  size_t to;  ///< in the output
  // Reductions only: what it is added to, and where that begins.
  enum class Own : uint8_t { input, slot, output } own = Own::output;
  size_t own_at = 0;
  bool last = false;  ///< nothing else is added to these elements
};

/// Who takes something out of what this rank publishes, and the part that they take.
struct Reader {
  int rank;
  size_t at = 0;  ///< in this rank's slot
  size_t bytes = 0;
};

/// What a rank does between two looks at its neighbours.
struct Step {
  using Action = std::function<void(const std::byte* send, std::byte* receive, std::byte* slot)>;

  /// Into the slot, if this rank publishes; or whatever else the island does. On the main stream.
  Action work;
  bool publishes = false;
  std::vector<Reader> readers;
  size_t bytes = 0;
  size_t from = 0;  ///< without `work`: what is published is a copy of this part of the input

  std::vector<int> publishers;  ///< all ranks that publish in this step
  std::vector<Take> takes;      ///< one of each source at most
  bool reduces = false;
  /// After all that. On the main stream.
  std::function<void(std::byte* receive)> finish;
};

/// Where an operation is planned for.
struct PlanSite {
  Device& device;
  Communicator* island;  ///< nullptr for a rank that is alone in its island
  const IslandMap& map;
  int rank;
  size_t stretch_bytes;  ///< what a step may put into a slot
  std::byte* scratch;    ///< for outputs that a library must be given and does not write
  void* stream;
};

/// An operation of all ranks, as the steps of one: every rank plans the same steps, each its part.
/// The steps refer to `site`'s device, island and map. Raises UnsupportedError.
std::vector<Step> plan_between_islands(const PlanSite& site, const Operation& operation);

}  // namespace cclmark
