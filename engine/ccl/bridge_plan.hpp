#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ccl/communicator.hpp"

namespace cclmark {

/// The bytes that kernels move at a time if both ends are aligned to it.
inline constexpr size_t kVectorBytes = 16;

/// The islands of a group's ranks: consecutive ranks, numbered from 0.
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

/// A piece to take from a rank's publication. Offsets and sizes are in bytes.
struct Take {
  int source;
  size_t at;  ///< in the source's slot
  size_t bytes;
  size_t to;  ///< in the output
  // Reductions only: the addend, and its offset.
  enum class Own : uint8_t { input, slot, output } own = Own::output;
  size_t own_at = 0;
  bool last = false;  ///< nothing else is added to these elements
};

/// A rank that reads this rank's publication, and the part that it reads.
struct Reader {
  int rank;
  size_t at = 0;  ///< in this rank's slot
  size_t bytes = 0;
};

/// What a rank does within its island: an operation of the island's library, or a copy.
struct InnerWork {
  std::optional<Operation> operation;  ///< of the island; without one, a copy
  std::shared_ptr<Call> call;          ///< nullptr for a copy, and where nothing is to be executed
  Place from, to;
  size_t bytes;  ///< of a copy
};

/// The work of a rank between two checks of its neighbours.
struct Step {
  /// Into the slot, if this rank publishes; or whatever else the island does. On the main stream.
  /// A result in a slot that is not published is never read.
  std::vector<InnerWork> work;
  bool follows_work = false;  ///< publishes after earlier work on the main stream, without its own
  bool publishes = false;
  std::vector<Reader> readers;
  size_t bytes = 0;
  size_t from = 0;  ///< without `work`: the part of the input that is copied and published

  std::vector<int> publishers;  ///< all ranks that publish in this step
  std::vector<Take> takes;      ///< one of each source at most
  bool reduces = false;
  /// After all that. On the main stream.
  std::vector<InnerWork> finish;

  bool on_main() const { return follows_work || !work.empty(); }
};

/// Up to this size every rank takes whole results of the other islands: a second operation within
/// the island costs more time than taking less data saves.
inline constexpr size_t kUsualWholeBytes = size_t{256} << 10;
/// The same of islands of two devices that NVLink connects with the others: measured on four H100,
/// an all_reduce gains by it up to 16 MiB and a broadcast up to 4 MiB. In a larger island more
/// ranks take what one would, and for a broadcast all of them from the same one.
inline constexpr size_t kUsualWholeBytesOfLinkedPairs = size_t{8} << 20;
/// The same of host ranks that copy directly, which start no kernels: measured on pairs with `shm`,
/// an all_reduce in parts is faster above this size, and thresholds of 512 bytes to 16 KiB do not
/// differ beyond their noise.
inline constexpr size_t kUsualWholeBytesOfHostRanks = size_t{4} << 10;

/// The rank and the resources that an operation is planned for.
struct PlanSite {
  /// nullptr for a rank that is alone in its island, and for a plan that is not to be executed.
  Communicator* island;
  const IslandMap& map;
  int rank;
  size_t stretch_bytes;  ///< the bytes of a slot that a step may use
  void* stream;
  size_t whole_bytes = kUsualWholeBytes;  ///< up to this size results are not shared out
};

/// An operation of all ranks, as the steps of one: every rank plans the same steps, each its part.
/// The steps refer to `site`'s island and map. Raises UnsupportedError.
std::vector<Step> plan_between_islands(const PlanSite& site, const Operation& operation);

}  // namespace cclmark
