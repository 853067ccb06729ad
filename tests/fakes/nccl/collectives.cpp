#include "nccl/collectives.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "nccl/communicator.hpp"
#include "nccl/reduce.hpp"

namespace fake_nccl {
namespace {

constexpr size_t kBlockBytes = 16384;

bool overlap(const std::byte* first, size_t first_bytes, const std::byte* second,
             size_t second_bytes) {
  return first_bytes > 0 && second_bytes > 0 && first < second + second_bytes &&
         second < first + first_bytes;
}

std::string describe(const Announcement& a) {
  return std::string(name(a.kind)) + "(count " + std::to_string(a.count) + ", dtype " +
         std::to_string(static_cast<int>(a.dtype)) + ", reduction " +
         std::to_string(static_cast<int>(a.reduction)) + ", root " + std::to_string(a.root) + ")";
}

/// One rank's work in one collective. Who writes what is chosen so that the in-place forms that
/// NCCL allows need no second buffer: each byte that is both input and output is read and written
/// by one rank only.
class Collective {
 public:
  Collective(Communicator& communicator, const Operation& operation)
      : communicator_(communicator),
        operation_(operation),
        rank_(communicator.rank()),
        ranks_(communicator.ranks()),
        width_(size_bytes(operation.dtype)),
        part_bytes_(operation.count * width_) {}

  void run() {
    announce();
    communicator_.barrier();
    require_agreement();
    move();
    communicator_.barrier();
  }

 private:
  void announce() {
    size_t send_bytes = operation_.send_count(rank_, ranks_) * width_;
    size_t receive_bytes = operation_.receive_count(rank_, ranks_) * width_;
    communicator_.seat(rank_).announcement = {
        operation_.kind,
        operation_.dtype,
        operation_.reduction,
        operation_.root,
        operation_.count,
        operation_.send_place,
        operation_.receive_place,
        overlap(operation_.send, send_bytes, operation_.receive, receive_bytes)};
  }

  /// The real library hangs or mixes up data when ranks disagree; a test wants to be told.
  void require_agreement() {
    const Announcement& own = communicator_.seat(rank_).announcement;
    for (int peer = 0; peer < ranks_; ++peer) {
      const Announcement& other = communicator_.seat(peer).announcement;
      if (describe(other) == describe(own)) continue;
      throw Failure{kInvalidUsage, "rank " + std::to_string(rank_) + " calls " + describe(own) +
                                       " while rank " + std::to_string(peer) + " calls " +
                                       describe(other)};
    }
  }

  void move() {
    switch (operation_.kind) {
      case Kind::all_reduce:
        return reduce_share(all_outputs());
      case Kind::reduce:
        return reduce_share({output(operation_.root)});
      case Kind::reduce_scatter:
        return reduce_range(own_part(), own_part() + operation_.count, {operation_.receive},
                            own_part());
      case Kind::all_gather:
        for (std::byte* to : all_outputs()) copy(to + own_offset(), operation_.send);
        return;
      case Kind::broadcast:
        return copy(operation_.receive, input(operation_.root));
      case Kind::gather:
        return copy(output(operation_.root) + own_offset(), operation_.send);
      case Kind::scatter:
        return copy(operation_.receive, input(operation_.root) + own_offset());
      case Kind::alltoall:
        return exchange_all();
      case Kind::send:
      case Kind::receive:
        throw Failure{kInternalError, "not a collective"};
    }
  }

  const std::byte* input(int rank) {
    if (rank == rank_) return operation_.send;
    return communicator_.memory(rank, communicator_.seat(rank).announcement.send);
  }
  std::byte* output(int rank) {
    if (rank == rank_) return operation_.receive;
    return communicator_.memory(rank, communicator_.seat(rank).announcement.receive);
  }
  std::vector<std::byte*> all_outputs() {
    std::vector<std::byte*> outputs;
    for (int peer = 0; peer < ranks_; ++peer) outputs.push_back(output(peer));
    return outputs;
  }

  size_t own_part() const { return operation_.count * static_cast<size_t>(rank_); }
  size_t own_offset() const { return own_part() * width_; }

  void copy(std::byte* to, const std::byte* from) const {
    if (to != from) std::memmove(to, from, part_bytes_);
  }

  /// Each rank reduces its share of the elements for all.
  void reduce_share(const std::vector<std::byte*>& outputs) {
    auto n = static_cast<size_t>(ranks_), i = static_cast<size_t>(rank_);
    size_t share = operation_.count / n, more = operation_.count % n;
    size_t first = i * share + std::min(i, more);
    reduce_range(first, first + share + (i < more ? 1 : 0), outputs, 0);
  }

  /// Reduces elements [first, last) of all inputs. Element `origin` goes to where outputs begin.
  void reduce_range(size_t first, size_t last, const std::vector<std::byte*>& outputs,
                    size_t origin) {
    alignas(16) std::byte block[kBlockBytes];
    std::vector<const std::byte*> inputs;
    for (int peer = 0; peer < ranks_; ++peer) inputs.push_back(input(peer));
    std::vector<const std::byte*> sources(inputs.size());
    for (size_t at = first; at < last; at += kBlockBytes / width_) {
      size_t count = std::min(last - at, kBlockBytes / width_);
      for (size_t i = 0; i < inputs.size(); ++i) sources[i] = inputs[i] + at * width_;
      reduce_elements(operation_.dtype, operation_.reduction, sources, block, count);
      for (std::byte* to : outputs) std::memcpy(to + (at - origin) * width_, block, count * width_);
    }
  }

  /// In place, ranks take turns: the outcome is then wrong each time, as callers of an operation
  /// that has no in-place form deserve, rather than now and then.
  void exchange_all() {
    bool in_place = false;
    for (int peer = 0; peer < ranks_; ++peer) {
      in_place |= communicator_.seat(peer).announcement.overlapping;
    }
    for (int turn = 0; turn < (in_place ? ranks_ : 1); ++turn) {
      if (!in_place || turn == rank_) fetch_all();
      if (in_place) communicator_.barrier();
    }
  }

  void fetch_all() {
    for (int peer = 0; peer < ranks_; ++peer) {
      std::byte* to = operation_.receive + static_cast<size_t>(peer) * part_bytes_;
      copy(to, input(peer) + own_offset());
    }
  }

  Communicator& communicator_;
  const Operation& operation_;
  const int rank_;
  const int ranks_;
  const size_t width_;
  const size_t part_bytes_;
};

}  // namespace

void run_collective(Communicator& communicator, const Operation& operation) {
  Collective(communicator, operation).run();
  corrupt_if_asked(operation, communicator.rank(), communicator.ranks());
}

void corrupt_if_asked(const Operation& operation, int rank, int ranks) {
  if (!operation.corrupt_element) return;
  if (*operation.corrupt_element >= operation.receive_count(rank, ranks)) return;
  size_t width = size_bytes(operation.dtype);
  std::byte* element = operation.receive + *operation.corrupt_element * width;
  for (size_t i = 0; i < width; ++i) element[i] = ~element[i];
}

}  // namespace fake_nccl
