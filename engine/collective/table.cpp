#include "collective/table.hpp"

#include <array>

namespace cclmark {
namespace {

using Op = Operation;
using Segments = std::vector<Segment>;

size_t none(const Op&, int, int) {
  return 0;
}
size_t one(const Op& op, int, int) {
  return op.count;
}
size_t all(const Op& op, int, int n) {
  return op.count * static_cast<size_t>(n);
}
size_t own_part(const Op& op, int rank, int) {
  return op.count * static_cast<size_t>(rank);
}
size_t root_all(const Op& op, int rank, int n) {
  return rank == op.root ? all(op, rank, n) : 0;
}
size_t root_one(const Op& op, int rank, int) {
  return rank == op.root ? op.count : 0;
}
size_t root_own_part(const Op& op, int rank, int) {
  return rank == op.root ? op.count * static_cast<size_t>(rank) : 0;
}

size_t right_of_root_one(const Op& op, int rank, int n) {
  return rank == (op.root + 1) % n ? op.count : 0;
}

size_t row_sum(const Op& op, int rank, int n) {
  size_t sum = 0;
  for (int to = 0; to < n; ++to) sum += op.part(rank, to, n);
  return sum;
}
size_t column_sum(const Op& op, int rank, int n) {
  size_t sum = 0;
  for (int from = 0; from < n; ++from) sum += op.part(from, rank, n);
  return sum;
}

Segments reduced(const Op& op, int, int) {
  return {{0, op.count, Segment::kReduced, 0}};
}
Segments reduced_at_root(const Op& op, int rank, int n) {
  return rank == op.root ? reduced(op, rank, n) : Segments{};
}
Segments reduced_part(const Op& op, int rank, int n) {
  return {{0, op.count, Segment::kReduced, own_part(op, rank, n)}};
}
Segments gathered(const Op& op, int, int n) {
  Segments segments;
  for (int from = 0; from < n; ++from) {
    segments.push_back({op.count * static_cast<size_t>(from), op.count, from, 0});
  }
  return segments;
}
Segments gathered_at_root(const Op& op, int rank, int n) {
  return rank == op.root ? gathered(op, rank, n) : Segments{};
}
Segments from_root(const Op& op, int, int) {
  return {{0, op.count, op.root, 0}};
}
Segments part_of_root(const Op& op, int rank, int n) {
  return {{0, op.count, op.root, own_part(op, rank, n)}};
}
Segments transposed(const Op& op, int rank, int n) {
  Segments segments;
  for (int from = 0; from < n; ++from) {
    segments.push_back(
        {op.count * static_cast<size_t>(from), op.count, from, own_part(op, rank, n)});
  }
  return segments;
}
Segments transposed_uneven(const Op& op, int rank, int n) {
  Segments segments;
  UnevenParts own(op, rank, n);
  for (int from = 0; from < n; ++from) {
    auto peer = static_cast<size_t>(from);
    size_t source = UnevenParts(op, from, n).send_offsets[static_cast<size_t>(rank)];
    segments.push_back({own.receive_offsets[peer], own.receive_counts[peer], from, source});
  }
  return segments;
}
Segments from_left(const Op& op, int rank, int n) {
  return {{0, op.count, (rank + n - 1) % n, 0}};
}
Segments to_the_right_of_root(const Op& op, int rank, int n) {
  return rank == (op.root + 1) % n ? from_root(op, rank, n) : Segments{};
}
Segments nothing(const Op&, int, int) {
  return {};
}

using C = Collective;
using By = Composition;

constexpr std::array<CollectiveInfo, kCollectives.size()> kTable = {{
    // clang-format off
    // collective        reduces rooted uneven staged divisible composition      send      receive     send offset    receive offset expected
    {C::all_reduce,      true,   false, false, false,  true,     By::nothing,     one,      one,        none,          none,          reduced},
    {C::all_gather,      false,  false, false, false,  false,    By::nothing,     one,      all,        own_part,      none,          gathered},
    {C::reduce_scatter,  true,   false, false, false,  false,    By::nothing,     all,      one,        none,          own_part,      reduced_part},
    {C::broadcast,       false,  true,  false, false,  true,     By::nothing,     root_one, one,        none,          none,          from_root},
    {C::reduce,          true,   true,  false, false,  true,     By::nothing,     one,      root_one,   none,          none,          reduced_at_root},
    {C::alltoall,        false,  false, false, true,   false,    By::exchange,    all,      all,        none,          none,          transposed},
    {C::alltoallv,       false,  false, true,  true,   false,    By::exchange,    row_sum,  column_sum, none,          none,          transposed_uneven},
    {C::gather,          false,  true,  false, false,  false,    By::exchange,    one,      root_all,   root_own_part, none,          gathered_at_root},
    {C::scatter,         false,  true,  false, false,  false,    By::exchange,    root_all, one,        none,          root_own_part, part_of_root},
    {C::sendrecv,        false,  false, false, true,   true,     By::ring,        one,      one,        none,          none,          from_left},
    {C::send,            false,  true,  false, false,  true,     By::exchange,    root_one, right_of_root_one, none,   none,          to_the_right_of_root},
    {C::ping_pong,       false,  false, false, true,   false,    By::turns,       one,      one,        none,          none,          from_left},
    {C::barrier,         false,  false, false, false,  false,    By::all_reduce,  none,     none,       none,          none,          nothing},
    // clang-format on
}};

constexpr bool in_order() {
  for (size_t i = 0; i < kTable.size(); ++i) {
    if (kTable[i].collective != static_cast<C>(i)) return false;
  }
  return true;
}
static_assert(in_order(), "rows must have the order of the enumeration");

}  // namespace

const CollectiveInfo& info(Collective collective) {
  return kTable[static_cast<size_t>(collective)];
}

std::vector<size_t> matrix_of(const Operation& operation, int ranks) {
  const CollectiveInfo& row = info(operation.collective);
  if (row.uneven) return operation.matrix;
  auto n = static_cast<size_t>(ranks);
  std::vector<size_t> matrix(n * n, 0);
  for (int to = 0; to < ranks; ++to) {
    for (const Segment& segment : row.expected(operation, to, ranks)) {
      matrix[static_cast<size_t>(segment.source) * n + static_cast<size_t>(to)] += segment.count;
    }
  }
  return matrix;
}

}  // namespace cclmark
