#include <doctest/doctest.h>
#include <unistd.h>

#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "ccl/bridge.hpp"
#include "lazy_device.hpp"
#include "measure/session.hpp"
#include "ranks.hpp"
#include "shapes.hpp"

using namespace cclmark;

namespace {

constexpr size_t kCapacity = 10'000;

/// What a rank recorded, copied out of its recorder.
using Events = std::vector<SlotEvent>;

Events of(const SlotRecorder& recorder) {
  return {recorder.events().begin(), recorder.events().end()};
}

Events only(const Events& events, SlotAction action) {
  Events found;
  for (const SlotEvent& event : events) {
    if (event.action == action) found.push_back(event);
  }
  return found;
}

void expect(bool right, const char* what) {
  if (!right) throw Error(what);
}

/// Runs `operations` of `op` on ranks of shm and returns what each recorded. `before`: called on
/// each rank before the recorded operations.
std::vector<Events> on_shm(
    int ranks, const Operation& op, size_t operations,
    const std::function<void(int rank)>& before = [](int) {}) {
  auto ccl = open_ccl(shape_of("shm"), {});
  std::vector<uint8_t> id = ccl->make_id(ranks);
  std::vector<Events> found(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](RankGroup& rank_group) {
    auto device = open_host_device(rank_group.rank());
    auto communicator = ccl->join(*device, id, rank_group);
    Session session(*device, rank_group, *communicator);
    session.reserve(size_t{8} << 20, size_t{8} << 20, {});
    session.prepare(op, false, 9);
    session.run({Timing::throughput, 2});
    SlotRecorder recorder(kCapacity);
    SlotTimes times = communicator->record_slots(SlotTap(&recorder, 0, 0));
    expect(times == SlotTimes::executed, "shm does not record what it executes");
    auto call = communicator->bind(op, nullptr);
    Buffer send(*device, size_t{1} << 20), receive(*device, size_t{1} << 20);
    rank_group.barrier();
    before(rank_group.rank());
    for (size_t i = 0; i < operations; ++i) call->enqueue(send.data(), receive.data());
    rank_group.barrier();
    found[static_cast<size_t>(rank_group.rank())] = of(recorder);
    expect(recorder.dropped() == 0, "events did not fit");
    communicator->record_slots({});
    session.run({Timing::throughput, 2});
    expect(of(recorder).size() == found[static_cast<size_t>(rank_group.rank())].size(),
           "recorded without a recorder");
  });
  return found;
}

Operation summed(size_t count) {
  Operation op;
  op.collective = Collective::all_reduce;
  op.count = count;
  return op;
}

/// Events of one thread: nothing overlaps unless it is nested.
void expect_in_order(const Events& events) {
  for (const SlotEvent& event : events) {
    expect(event.begin_ns > 0 && event.end_ns >= event.begin_ns, "a period ends before it begins");
  }
  for (size_t i = 1; i < events.size(); ++i) {
    expect(events[i].end_ns >= events[i - 1].end_ns, "not in the order of their ends");
  }
}

}  // namespace

TEST_CASE("a recorder counts what does not fit") {
  SlotRecorder recorder(2);
  SlotTap tap(&recorder, 4, 3);
  for (size_t i = 0; i < 5; ++i) tap.during(SlotAction::read, 1, i, 10 * i, [] {});
  REQUIRE(recorder.events().size() == 2);
  CHECK(recorder.dropped() == 3);
  const SlotEvent& second = recorder.events()[1];
  CHECK(second.peer == 5);
  CHECK(second.group == 3);
  CHECK(second.sequence == 1);
  CHECK(second.bytes == 10);
  tap.add(SlotAction::reduce, -1, 0, 0, tap.begin());
  CHECK(recorder.dropped() == 4);
  recorder.clear();
  CHECK(recorder.events().empty());
  CHECK(recorder.dropped() == 0);
  tap.add(SlotAction::reduce, -1, 0, 0, tap.begin());
  CHECK(recorder.events()[0].peer == -1);
  int calls = 0;
  SlotTap().during(SlotAction::read, 1, 0, 0, [&] { ++calls; });
  CHECK(calls == 1);
  CHECK(SlotTap().begin() == 0);
}

TEST_CASE("shm records a publication and a reduction for each operation") {
  for (size_t count : {size_t{16}, size_t{100'000}}) {  // in the announcements, and in buffers
    std::vector<Events> found = on_shm(3, summed(count), 7);
    Events first = only(found[0], SlotAction::publish);
    for (const Events& events : found) {
      expect_in_order(events);
      Events published = only(events, SlotAction::publish);
      Events reduced = only(events, SlotAction::reduce);
      REQUIRE(published.size() == 7);
      REQUIRE(reduced.size() == 7);
      for (size_t i = 0; i < published.size(); ++i) {
        CHECK(published[i].sequence == first[0].sequence + i);  // the same on all ranks
        CHECK(published[i].bytes == count * 4);
        CHECK(reduced[i].sequence == published[i].sequence);
        CHECK(reduced[i].peer == -1);
        CHECK(reduced[i].begin_ns >= published[i].end_ns);
      }
    }
    // Slices together are the vector.
    size_t bytes = 0;
    for (const Events& events : found) bytes += only(events, SlotAction::reduce)[0].bytes;
    CHECK(bytes == count * 4 * (count == 16 ? 3 : 1));
  }
}

TEST_CASE("shm records which rank is read, and nothing is read before it is published") {
  Operation op;
  op.collective = Collective::alltoall;
  op.count = 30'000;
  std::vector<Events> found = on_shm(3, op, 5);
  for (size_t rank = 0; rank < found.size(); ++rank) {
    Events read = only(found[rank], SlotAction::read);
    REQUIRE(read.size() == 15);
    for (const SlotEvent& event : read) {
      bool seen = false;
      for (const SlotEvent& source : found[static_cast<size_t>(event.peer)]) {
        if (source.action != SlotAction::publish || source.sequence != event.sequence) continue;
        seen = source.end_ns <= event.end_ns && source.begin_ns <= event.begin_ns;
      }
      CHECK(seen);
    }
  }
}

TEST_CASE("shm records for which rank it waits, and why") {
  // On a busy machine the first rank begins late, too, and waits for a part of this time only.
  constexpr int64_t kLateNs = 200'000'000, kLeastNs = kLateNs / 10;
  auto second_is_late = [](int rank) {
    if (rank == 1) usleep(kLateNs / 1000);
  };
  auto longest = [](const Events& events, SlotAction cause) {
    int64_t longest_ns = 0;
    for (const SlotEvent& event : only(events, cause)) {
      CHECK(event.peer == 1);
      longest_ns = std::max(longest_ns, event.end_ns - event.begin_ns);
    }
    return longest_ns;
  };
  std::vector<Events> found = on_shm(2, summed(16), 1, second_is_late);
  CHECK(longest(found[0], SlotAction::wait_published) > kLeastNs);

  // The root sends to nobody who answers: it runs ahead until all announcements are taken.
  Operation op;
  op.collective = Collective::broadcast;
  op.count = 4;
  found = on_shm(2, op, 70, second_is_late);
  CHECK(longest(found[0], SlotAction::wait_slot) > kLeastNs);

  // With large messages it waits until its buffers are read.
  op.count = 50'000;
  found = on_shm(2, op, 1, second_is_late);
  CHECK(longest(found[0], SlotAction::wait_buffers) > kLeastNs);
}

TEST_CASE("a bridge records what it takes from which publication, and the islands' libraries") {
  const std::vector<int> firsts{0, 2};
  const int ranks = 4;
  for (bool through_host : {false, true}) {
    std::vector<std::unique_ptr<Ccl>> ccls;
    std::vector<std::vector<uint8_t>> ids;
    for (size_t island = 0; island < firsts.size(); ++island) {
      ccls.push_back(open_ccl(shape_of("shm"), {}));
      ids.push_back(ccls.back()->make_id(2));
    }
    std::vector<Events> found(4);
    run_ranks_on_file(ranks, [&](RankGroup& rank_group, int fd) {
      int island = rank_group.rank() / 2;
      auto device = open_host_device(rank_group.rank());
      std::vector<int> members{2 * island, 2 * island + 1};
      auto inner = rank_group.subgroup(fd, members, static_cast<size_t>(ranks + 2 * island));
      inner->expect_within(300, "a test");
      auto own = ccls[static_cast<size_t>(island)]->join(*device, ids[static_cast<size_t>(island)],
                                                         *inner);
      auto all = join_islands(*device, rank_group, {firsts, through_host}, own.get());
      Session session(*device, rank_group, *all);
      session.reserve(size_t{1} << 20, size_t{1} << 20, {});
      session.prepare(summed(100'000), false, 7);
      SlotRecorder recorder(kCapacity);
      expect(all->record_slots(SlotTap(&recorder, 0, 0)) == SlotTimes::executed, "not executed");
      session.trace(3, false);
      all->record_slots({});
      found[static_cast<size_t>(rank_group.rank())] = of(recorder);
      rank_group.barrier();
    });
    std::set<std::tuple<int, uint64_t>> published;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const SlotEvent& event : only(found[static_cast<size_t>(rank)], SlotAction::publish)) {
        if (event.group == 0) published.insert({rank, event.sequence});
      }
    }
    CHECK(published.size() == 12);  // one step of each rank in each operation
    for (int rank = 0; rank < ranks; ++rank) {
      const Events& events = found[static_cast<size_t>(rank)];
      size_t taken = 0, inside = 0;
      for (const SlotEvent& event : events) {
        if (event.group == 0) {
          bool reads = event.action == SlotAction::read || event.action == SlotAction::reduce;
          if (!reads) continue;
          ++taken;
          CHECK(event.peer / 2 != rank / 2);  // of the other island
          CHECK(published.contains({event.peer, event.sequence}));
          continue;
        }
        ++inside;
        CHECK(event.group == 1 + rank / 2);
        if (event.peer >= 0) CHECK(event.peer / 2 == rank / 2);
      }
      CHECK(taken >= 3);
      CHECK(inside >= 6);
      CHECK(only(events, SlotAction::island).size() >= 3);
    }
  }
}

TEST_CASE("a bridge whose streams wait records what it enqueues") {
  std::vector<Events> found(2);
  run_ranks(2, [&](RankGroup& rank_group) {
    LazyDevice device(rank_group.rank(), 3, -1);
    auto all = join_islands(device, rank_group, {{0, 1}, false}, nullptr);
    Session session(device, rank_group, *all);
    session.reserve(size_t{1} << 20, size_t{1} << 20, {});
    session.prepare(summed(1000), false, 7);
    SlotRecorder recorder(kCapacity);
    expect(all->record_slots(SlotTap(&recorder, 0, 0)) == SlotTimes::enqueued, "not enqueued");
    session.trace(3, false);
    all->record_slots({});
    found[static_cast<size_t>(rank_group.rank())] = of(recorder);
    rank_group.barrier();
  });
  for (const Events& events : found) {
    CHECK(only(events, SlotAction::publish).size() == 3);
    CHECK(only(events, SlotAction::wait_published).empty());
    CHECK(only(events, SlotAction::wait_slot).empty());
  }
}
