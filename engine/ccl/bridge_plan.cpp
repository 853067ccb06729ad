#include "ccl/bridge_plan.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "collective/table.hpp"

namespace cclmark {
namespace {

class Planner {
 public:
  Planner(const PlanSite& site, const Operation& op)
      : site_(site),
        map_(site.map),
        op_(op),
        width_(size_bytes(op.dtype)),
        room_(site.stretch_bytes / size_bytes(op.dtype)),
        rank_(site.rank),
        ranks_(site.map.ranks()),
        islands_(site.map.islands()),
        mine_(site.map.island_of(site.rank)),
        index_(site.map.index_of(site.rank)),
        alone_(site.map.ranks_of(site.map.island_of(site.rank)) == 1) {
    for (int island = 0; island < islands_; ++island) {
      evenly_ = std::lcm(evenly_, static_cast<size_t>(ranks_of(island)));
      fewest_ = std::min(fewest_, static_cast<size_t>(ranks_of(island)));
    }
  }

  std::vector<Step> plan() {
    switch (op_.collective) {
      case Collective::all_reduce:
        plan_all_reduce();
        break;
      case Collective::all_gather:
        plan_all_gather();
        break;
      case Collective::reduce_scatter:
        plan_reduce_scatter();
        break;
      case Collective::broadcast:
        plan_broadcast();
        break;
      case Collective::reduce:
        plan_reduce();
        break;
      case Collective::alltoall:
      case Collective::alltoallv:
        plan_alltoall();
        break;
      case Collective::gather:
        plan_gather();
        break;
      case Collective::scatter:
        plan_scatter();
        break;
      case Collective::sendrecv:
        plan_ring_shift();
        break;
      case Collective::barrier:
        plan_barrier();
        break;
      case Collective::send:
      case Collective::ping_pong:
        throw UnsupportedError(std::string(name(op_.collective)) +
                               " is not supported between islands: use sendrecv");
      default:
        throw UnsupportedError(std::string(name(op_.collective)) +
                               " is not supported between islands");
    }
    return std::move(steps_);
  }

 private:
  using CallPointer = std::shared_ptr<Call>;

  int ranks_of(int island) const { return map_.ranks_of(island); }
  int first_of(int island) const { return map_.first_of(island); }
  int island_of(int rank) const { return map_.island_of(rank); }
  int index_of(int rank) const { return map_.index_of(rank); }
  bool abroad(int rank) const { return island_of(rank) != mine_; }

  /// An operation of this rank's island, from one place of a buffer to another.
  InnerWork of_island(Collective collective, size_t count, Place from, Place to, int root = 0,
                      std::vector<size_t> matrix = {}) {
    Operation op = op_;
    op.collective = collective;
    op.count = count;
    op.root = root;
    op.matrix = std::move(matrix);
    if (op.reduction == Reduction::avg) op.reduction = Reduction::sum;  // divided at the end
    CallPointer& known = calls_[std::make_tuple(collective, count, root)];
    if (known == nullptr && site_.island != nullptr) known = site_.island->bind(op, site_.stream);
    return {std::move(op), known, from, to, 0};
  }
  static InnerWork copy(Place from, Place to, size_t bytes) {
    return {{}, nullptr, from, to, bytes};
  }
  static Place input(size_t at) { return {Space::input, at}; }
  static Place output(size_t at) { return {Space::output, at}; }
  static Place slot(size_t at = 0) { return {Space::slot, at}; }

  Step& add() { return steps_.emplace_back(); }
  void everybody_publishes(Step& step) const {
    for (int rank = 0; rank < ranks_; ++rank) step.publishers.push_back(rank);
  }
  template <typename Body>
  void others(Body body) const {
    for (int island = 0; island < islands_; ++island) {
      if (island != mine_) body(island);
    }
  }
  bool is_last(int island) const {
    return island == (mine_ == islands_ - 1 ? islands_ - 2 : islands_ - 1);
  }
  bool is_first(int island) const { return island == (mine_ == 0 ? 1 : 0); }
  /// The addend for the first other island's part; later parts are added to the result.
  Take::Own own_for(int island) const {
    if (!is_first(island)) return Take::Own::output;
    return alone_ ? Take::Own::input : Take::Own::slot;
  }

  /// Stretches of `count` elements, of at most `most` each.
  template <typename Body>
  static void in_stretches(size_t count, size_t most, Body body) {
    for (size_t at = 0; at < count; at += most) body(at, std::min(most, count - at));
  }
  /// So that stretches begin at whole vectors.
  size_t whole_vectors(size_t elements) const {
    size_t per_vector = kVectorBytes / width_;
    return std::max(elements / per_vector * per_vector, per_vector);
  }

  /// Likewise, of what the ranks of every island can share out evenly; none where that is more than
  /// there is room for, as with many islands of unlike sizes.
  size_t whole_units(size_t elements) const {
    size_t unit = evenly_ * kVectorBytes / width_;
    return elements / unit * unit;
  }
  /// The number of elements that ranks share out, in stretches of at most `most`.
  size_t shared_elements(size_t most) const {
    if (most == 0 || op_.count * width_ <= site_.whole_bytes) return 0;
    return op_.count / evenly_ * evenly_;
  }

  void plan_all_reduce() {
    size_t most = whole_units(room_ * fewest_);
    size_t shared = shared_elements(most);
    in_stretches(shared, most, [&](size_t at, size_t count) { add_shared(at, count); });
    in_stretches(op_.count - shared, whole_vectors(room_),
                 [&](size_t at, size_t count) { add_whole(shared + at, count); });
  }

  /// Every rank reduces the part of its island, adds the same part of the others, and the island
  /// gathers the parts.
  void add_shared(size_t at, size_t count) {
    Step& step = add();
    size_t n = static_cast<size_t>(ranks_of(mine_)), part = count / n;
    size_t first = static_cast<size_t>(index_) * part, offset = at * width_;
    if (alone_) {
      step.from = offset;
    } else {
      step.work = {of_island(Collective::reduce_scatter, part, input(offset), slot())};
      step.finish = {
          of_island(Collective::all_gather, part, output(offset + first * width_), output(offset))};
    }
    step.publishes = step.reduces = true;
    step.bytes = part * width_;
    everybody_publishes(step);
    others([&](int island) {
      size_t theirs = count / static_cast<size_t>(ranks_of(island));
      for (int i = 0; i < ranks_of(island); ++i) {
        size_t begin = std::max(first, static_cast<size_t>(i) * theirs);
        size_t end = std::min(first + part, static_cast<size_t>(i + 1) * theirs);
        if (begin >= end) continue;
        int peer = first_of(island) + i;
        size_t bytes = (end - begin) * width_;
        step.readers.push_back({peer, (begin - first) * width_, bytes});
        step.takes.push_back({peer, (begin - static_cast<size_t>(i) * theirs) * width_, bytes,
                              offset + begin * width_, own_for(island),
                              alone_ ? offset + begin * width_ : (begin - first) * width_,
                              is_last(island)});
      }
    });
  }

  /// Every island reduces all of it, and every rank adds the result of one rank of each other
  /// island.
  void add_whole(size_t at, size_t count) {
    Step& step = add();
    size_t offset = at * width_, bytes = count * width_;
    if (alone_) {
      step.from = offset;
    } else {
      step.work = {of_island(Collective::all_reduce, count, input(offset), slot())};
    }
    // Also without readers, as in an island with more ranks than the others: this rank adds to the
    // slot.
    step.publishes = step.reduces = true;
    step.bytes = bytes;
    everybody_publishes(step);
    others([&](int island) {
      for (int i = 0; i < ranks_of(island); ++i) {
        if (i % ranks_of(mine_) == index_) step.readers.push_back({first_of(island) + i, 0, bytes});
      }
      step.takes.push_back({first_of(island) + index_ % ranks_of(island), 0, bytes, offset,
                            own_for(island), alone_ ? offset : 0, is_last(island)});
    });
  }

  /// What an island does by itself, from one place of the input to one of the output; a rank that
  /// is alone copies `bytes`, and ranks that have no part do nothing.
  void add_inner(bool takes_part, Collective collective, size_t from, size_t to, size_t bytes,
                 int root = 0, std::vector<size_t> matrix = {}) {
    Step& step = add();
    if (!takes_part) return;
    step.work = {alone_ ? copy(input(from), output(to), bytes)
                        : of_island(collective, op_.count, input(from), output(to), root,
                                    std::move(matrix))};
  }

  void plan_all_gather() {
    size_t bytes = op_.count * width_;
    add_inner(true, Collective::all_gather, 0, static_cast<size_t>(first_of(mine_)) * bytes, bytes);
    in_stretches(op_.count, whole_vectors(room_), [&](size_t at, size_t count) {
      Step& step = add();
      step.publishes = true;
      step.from = at * width_;
      step.bytes = count * width_;
      everybody_publishes(step);
      // Ranks start with different peers, so that they do not all read from one at once.
      for (int turn = 1; turn < ranks_; ++turn) {
        int peer = (rank_ + turn) % ranks_;
        if (!abroad(peer)) continue;
        step.readers.push_back({peer, 0, step.bytes});
        step.takes.push_back(
            {peer, 0, step.bytes, static_cast<size_t>(peer) * bytes + at * width_});
      }
    });
  }

  /// Ranks of other islands that `rank` reduces for, in order.
  std::vector<int> served_by(int rank) const {
    std::vector<int> served;
    for (int to = 0; to < ranks_; ++to) {
      int island = island_of(rank);
      if (island_of(to) == island) continue;
      if (index_of(to) % ranks_of(island) == index_of(rank)) served.push_back(to);
    }
    return served;
  }

  void plan_reduce_scatter() {
    size_t bytes = op_.count * width_;
    add_inner(true, Collective::reduce_scatter, static_cast<size_t>(first_of(mine_)) * bytes, 0,
              bytes);
    size_t most = 1;
    for (int rank = 0; rank < ranks_; ++rank) most = std::max(most, served_by(rank).size());
    size_t stretch = whole_vectors(room_ / most);
    std::vector<int> served = served_by(rank_);
    auto place_in = [](const std::vector<int>& list, int rank) {
      return static_cast<size_t>(std::ranges::find(list, rank) - list.begin());
    };
    in_stretches(op_.count, stretch, [&](size_t at, size_t count) {
      Step& step = add();
      step.publishes = !served.empty();
      step.reduces = true;
      for (size_t i = 0; i < served.size(); ++i) {
        step.readers.push_back({served[i], i * stretch * width_, count * width_});
      }
      step.bytes = served.empty() ? 0 : ((served.size() - 1) * stretch + count) * width_;
      for (int rank = 0; rank < ranks_; ++rank) {
        if (!served_by(rank).empty()) step.publishers.push_back(rank);
      }
      add_reductions(step, served, at, count, stretch);
      others([&](int island) {
        int source = first_of(island) + index_ % ranks_of(island);
        size_t slot = place_in(served_by(source), rank_) * stretch * width_;
        step.takes.push_back({source, slot, count * width_, at * width_, Take::Own::output,
                              at * width_, is_last(island)});
      });
    });
  }

  /// Reduces within the island the parts of other islands' ranks, each to the rank that serves it.
  void add_reductions(Step& step, const std::vector<int>& served, size_t at, size_t count,
                      size_t stretch) {
    if (alone_ && served.size() == 1) {
      step.from = (static_cast<size_t>(served[0]) * op_.count + at) * width_;
      return;
    }
    size_t bytes = count * width_;
    for (int to = 0; to < ranks_; ++to) {
      if (!abroad(to)) continue;
      Place from = input((static_cast<size_t>(to) * op_.count + at) * width_);
      int root = index_of(to) % ranks_of(mine_);
      auto place = static_cast<size_t>(std::ranges::find(served, to) - served.begin());
      Place into = slot(root == index_ ? place * stretch * width_ : 0);
      step.work.push_back(alone_ ? copy(from, into, bytes)
                                 : of_island(Collective::reduce, count, from, into, root));
    }
  }

  void plan_broadcast() {
    size_t bytes = op_.count * width_;
    bool home = mine_ == island_of(op_.root);
    // In place, from the root's output: some libraries have no other broadcast.
    Step& first = add();
    if (home && rank_ == op_.root) first.work = {copy(input(0), output(0), bytes)};
    Step& second = add();
    if (home && !alone_) {
      second.work = {
          of_island(Collective::broadcast, op_.count, output(0), output(0), index_of(op_.root))};
    }
    size_t most = whole_units(room_);
    size_t shared = shared_elements(most);
    in_stretches(shared, most, [&](size_t at, size_t count) { add_root_stretch(at, count, true); });
    in_stretches(op_.count - shared, whole_vectors(room_),
                 [&](size_t at, size_t count) { add_root_stretch(shared + at, count, false); });
  }

  /// The root publishes; elsewhere each rank takes a part and the island gathers them, or each
  /// takes everything.
  void add_root_stretch(size_t at, size_t count, bool in_parts) {
    Step& step = add();
    step.publishers = {op_.root};
    step.from = at * width_;
    step.bytes = count * width_;
    if (rank_ == op_.root) {
      step.publishes = true;
      for (int peer = 0; peer < ranks_; ++peer) {
        if (!abroad(peer)) continue;
        auto [first, bytes] = part_of(peer, count, in_parts);
        step.readers.push_back({peer, first, bytes});
      }
    }
    if (mine_ == island_of(op_.root)) return;
    auto [first, bytes] = part_of(rank_, count, in_parts);
    step.takes.push_back({op_.root, first, bytes, step.from + first});
    if (!in_parts || alone_) return;
    step.finish = {of_island(Collective::all_gather, bytes / width_, output(step.from + first),
                             output(step.from))};
  }
  /// The bytes of the root's stretch that a rank takes: their offset and number.
  std::pair<size_t, size_t> part_of(int rank, size_t count, bool in_parts) const {
    size_t ranks = in_parts ? static_cast<size_t>(ranks_of(island_of(rank))) : 1;
    size_t bytes = count / ranks * width_;
    return {in_parts ? static_cast<size_t>(index_of(rank)) * bytes : 0, bytes};
  }

  void plan_reduce() {
    int home = island_of(op_.root), root = index_of(op_.root);
    auto leader_of = [&](int island) { return first_of(island) + root % ranks_of(island); };
    in_stretches(op_.count, whole_vectors(room_), [&](size_t at, size_t count) {
      Step& step = add();
      size_t offset = at * width_, bytes = count * width_;
      bool at_home = mine_ == home;
      int leader = at_home ? op_.root : leader_of(mine_);
      if (alone_) {
        step.from = offset;  // the root adds to its input
      } else {
        step.work = {of_island(Collective::reduce, count, input(offset),
                               at_home ? output(offset) : slot(), index_of(leader))};
      }
      step.reduces = true;
      step.bytes = bytes;
      step.publishes = !at_home && rank_ == leader;
      if (step.publishes) step.readers = {{op_.root, 0, bytes}};
      for (int island = 0; island < islands_; ++island) {
        if (island == home) continue;
        step.publishers.push_back(leader_of(island));
        if (rank_ != op_.root) continue;
        bool to_input = alone_ && is_first(island);
        step.takes.push_back({leader_of(island), 0, bytes, offset,
                              to_input ? Take::Own::input : Take::Own::output, offset,
                              is_last(island)});
      }
    });
  }

  void plan_alltoall() {
    bool uneven = info(op_.collective).uneven;
    auto part = [&](int from, int to) { return uneven ? op_.part(from, to, ranks_) : op_.count; };
    auto before = [&](int from, int to, bool sent) {
      size_t sum = 0;
      for (int i = 0; i < (sent ? to : from); ++i) sum += sent ? part(from, i) : part(i, to);
      return sum * width_;
    };
    int first = first_of(mine_), n = ranks_of(mine_);
    size_t out = before(rank_, first, true), in = before(first, rank_, false);
    std::vector<size_t> inner;
    for (int from = first; uneven && from < first + n; ++from) {
      for (int to = first; to < first + n; ++to) inner.push_back(part(from, to));
    }
    add_inner(true, op_.collective, out, in, part(rank_, rank_) * width_, 0, std::move(inner));
    for (int turn = 1; turn < ranks_; ++turn) {
      auto target = [&](int from) { return (from + turn) % ranks_; };
      size_t longest = 0;
      for (int from = 0; from < ranks_; ++from) {
        if (island_of(from) != island_of(target(from))) {
          longest = std::max(longest, part(from, target(from)));
        }
      }
      in_stretches(longest, whole_vectors(room_), [&](size_t at, size_t most) {
        Step& step = add();
        for (int from = 0; from < ranks_; ++from) {
          int to = target(from);
          if (island_of(from) == island_of(to) || part(from, to) <= at) continue;
          step.publishers.push_back(from);
          size_t bytes = std::min(most, part(from, to) - at) * width_;
          if (from == rank_) {
            step.publishes = true;
            step.readers = {{to, 0, bytes}};
            step.from = before(from, to, true) + at * width_;
            step.bytes = bytes;
          } else if (to == rank_) {
            step.takes.push_back({from, 0, bytes, before(from, to, false) + at * width_});
          }
        }
      });
    }
  }

  void plan_gather() {
    int home = island_of(op_.root);
    size_t bytes = op_.count * width_;
    add_inner(mine_ == home, Collective::gather, 0, static_cast<size_t>(first_of(mine_)) * bytes,
              bytes, index_of(op_.root));
    in_stretches(op_.count, whole_vectors(room_), [&](size_t at, size_t count) {
      Step& step = add();
      step.from = at * width_;
      step.bytes = count * width_;
      for (int peer = 0; peer < ranks_; ++peer) {
        if (island_of(peer) == home) continue;
        step.publishers.push_back(peer);
        if (rank_ != op_.root) continue;
        step.takes.push_back({peer, 0, step.bytes, static_cast<size_t>(peer) * bytes + step.from});
      }
      step.publishes = mine_ != home;
      if (step.publishes) step.readers = {{op_.root, 0, step.bytes}};
    });
  }

  void plan_scatter() {
    int home = island_of(op_.root);
    size_t bytes = op_.count * width_;
    add_inner(mine_ == home, Collective::scatter, static_cast<size_t>(first_of(mine_)) * bytes, 0,
              bytes, index_of(op_.root));
    for (int to = 0; to < ranks_; ++to) {
      if (island_of(to) == home) continue;
      in_stretches(op_.count, whole_vectors(room_), [&](size_t at, size_t count) {
        Step& step = add();
        step.publishers = {op_.root};
        step.publishes = rank_ == op_.root;
        step.from = static_cast<size_t>(to) * bytes + at * width_;
        step.bytes = count * width_;
        step.readers = {{to, 0, step.bytes}};
        if (rank_ == to) step.takes.push_back({op_.root, 0, step.bytes, at * width_});
      });
    }
  }

  void plan_ring_shift() {
    int n = ranks_of(mine_);
    std::vector<size_t> chain(static_cast<size_t>(n) * static_cast<size_t>(n), 0);
    for (int i = 0; i + 1 < n; ++i) chain[static_cast<size_t>(i * n + i + 1)] = op_.count;
    add_inner(true, Collective::alltoallv, 0, 0, 0, 0, std::move(chain));
    in_stretches(op_.count, whole_vectors(room_), [&](size_t at, size_t count) {
      Step& step = add();
      step.from = at * width_;
      step.bytes = count * width_;
      for (int from = 0; from < ranks_; ++from) {
        int to = (from + 1) % ranks_;
        if (island_of(from) == island_of(to)) continue;
        step.publishers.push_back(from);
        if (from == rank_) {
          step.publishes = true;
          step.readers = {{to, 0, step.bytes}};
        } else if (to == rank_) {
          step.takes.push_back({from, 0, step.bytes, step.from});
        }
      }
    });
  }

  void plan_barrier() {
    add_inner(true, Collective::barrier, 0, 0, 0);
    Step& step = add();
    step.follows_work = true;
    step.publishes = true;
    step.reduces = true;  // which orders the waits after it, too
    everybody_publishes(step);
    for (int peer = 0; peer < ranks_; ++peer) {
      if (!abroad(peer)) continue;
      step.readers.push_back({peer});
      step.takes.push_back({peer, 0, 0, 0});
    }
  }

  const PlanSite site_;
  const IslandMap& map_;
  const Operation op_;
  size_t width_;
  size_t room_;  ///< elements that a step may put into a slot
  int rank_, ranks_, islands_, mine_, index_;
  bool alone_;
  size_t evenly_ = 1;  ///< what every island can divide by its ranks
  size_t fewest_ = SIZE_MAX;
  std::map<std::tuple<Collective, size_t, int>, CallPointer> calls_;
  std::vector<Step> steps_;
};

}  // namespace

IslandMap::IslandMap(std::vector<int> firsts, int ranks)
    : firsts_(std::move(firsts)), ranks_(ranks) {
  bool ascending = std::ranges::adjacent_find(firsts_, std::greater_equal<>()) == firsts_.end();
  if (firsts_.size() < 2 || firsts_.front() != 0 || firsts_.back() >= ranks || !ascending) {
    throw Error(
        "at least two islands of consecutive ranks are required, with every rank in one of them");
  }
}

int IslandMap::island_of(int rank) const {
  auto next = std::ranges::upper_bound(firsts_, rank);
  return static_cast<int>(next - firsts_.begin()) - 1;
}

std::vector<Step> plan_between_islands(const PlanSite& site, const Operation& operation) {
  return Planner(site, operation).plan();
}

}  // namespace cclmark
