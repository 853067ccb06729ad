#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <tuple>

#include "ccl/bridge.hpp"
#include "ccl/bridge_plan.hpp"
#include "ccl/call_of.hpp"
#include "environment.hpp"
#include "lazy_device.hpp"
#include "measure/session.hpp"
#include "ranks.hpp"
#include "sanitizers.hpp"
#include "shapes.hpp"

using namespace cclmark;

namespace {

constexpr size_t kRoom = size_t{8} << 20;

bool is_of_two(Collective collective) {
  return collective == Collective::send || collective == Collective::ping_pong;
}

/// Which device ranks have: the host, or one whose streams are threads, of which one is behind.
struct Streams {
  bool lazy = false;
  int slow = -1;
};

struct Message {
  using Kind = std::pair<uint32_t, size_t>;  // label and bytes
  const std::byte* data = nullptr;
  std::byte* into = nullptr;
  Kind sent{}, received{};
  bool from_there = false, to_here = false, sender_asked = false, receiver_asked = false;
  bool copied = false;
};

/// Messages between threads that act as hosts. One is copied when both sides have begun it and both
/// have asked for it since, and not always at once: memory that is used again too early shows, and
/// so does a rank that moves nothing on.
class Mail {
 public:
  class Box final : public HostExchange {
   public:
    Box(Mail& mail, int rank) : mail_(mail), rank_(rank), random_(17u + unsigned(rank)) {}
    size_t send(int to, uint32_t label, const std::byte* data, size_t bytes) override {
      begun_.push_back({mail_.next(rank_, to, true, {label, bytes}, nullptr, data), true});
      return begun_.size() - 1;
    }
    size_t receive(int from, uint32_t label, std::byte* data, size_t bytes) override {
      begun_.push_back({mail_.next(from, rank_, false, {label, bytes}, data, nullptr), false});
      return begun_.size() - 1;
    }
    bool done(size_t number) override {
      if (fails_after > 0 && --fails_after == 0) throw Error("the host exchange is broken");
      auto [message, sends] = begun_.at(number);
      return random_() % 3 == 0 && mail_.ask(*message, sends);
    }
    void keep_going() override {}

    int fails_after = 0;  ///< questions; 0: never

   private:
    struct Begun {
      Message* message;
      bool sends;
    };
    Mail& mail_;
    int rank_;
    std::minstd_rand random_;
    std::vector<Begun> begun_;
  };

 private:
  struct Line {
    std::deque<Message> messages;
    size_t sent = 0, received = 0;
  };

  Message* next(int from, int to, bool sends, Message::Kind kind, std::byte* into,
                const std::byte* data) {
    std::scoped_lock lock(mutex_);
    Line& line = lines_[{from, to}];
    size_t place = sends ? line.sent++ : line.received++;
    if (place == line.messages.size()) line.messages.emplace_back();
    Message& message = line.messages[place];
    (sends ? message.sent : message.received) = kind;
    (sends ? message.from_there : message.to_here) = true;
    if (sends) message.data = data;
    if (!sends) message.into = into;
    return &message;
  }

  bool ask(Message& message, bool sends) {
    std::scoped_lock lock(mutex_);
    if (message.copied) return true;
    if (!message.from_there || !message.to_here) return false;
    (sends ? message.sender_asked : message.receiver_asked) = true;
    if (!message.sender_asked || !message.receiver_asked) return false;
    if (message.sent != message.received) throw Error("another message was meant");
    std::memcpy(message.into, message.data, message.sent.second);
    return message.copied = true;
  }

  std::mutex mutex_;
  std::map<std::pair<int, int>, Line> lines_;
};

/// Islands of host ranks, each with the built-in library, and what every rank measures with.
/// `hosts`: of each rank; one for all if there are none.
void on_islands(const std::vector<int>& firsts, int ranks, bool through_host,
                const std::function<void(Session&, RankGroup&)>& body, Streams streams = {},
                std::vector<int> hosts = {}) {
  if (hosts.empty()) hosts.resize(static_cast<size_t>(ranks));
  Mail mail;
  std::unique_ptr<Ccl> ccl = open_ccl(shape_of("shm"), {});
  std::vector<std::vector<uint8_t>> ids(firsts.size());
  for (auto& id : ids) id = ccl->make_id(ranks);
  run_ranks_on_hosts(hosts, [&](RankGroup& rank_group, int fd) {
    size_t island = firsts.size() - 1;
    while (firsts[island] > rank_group.rank()) --island;
    int end = island + 1 < firsts.size() ? firsts[island + 1] : ranks;
    std::vector<int> members(static_cast<size_t>(end - firsts[island]));
    std::iota(members.begin(), members.end(), firsts[island]);
    std::unique_ptr<Device> host = open_host_device(rank_group.rank());
    std::unique_ptr<Device> lazy;
    if (streams.lazy) {
      auto seed = static_cast<unsigned>(100 * rank_group.rank() + 7);
      lazy = std::make_unique<LazyDevice>(rank_group.rank(), seed, streams.slow);
    }
    Device& device = lazy != nullptr ? *lazy : *host;
    auto first_slot = static_cast<size_t>(ranks + firsts[island]);
    std::unique_ptr<RankGroup> inner = rank_group.subgroup(fd, members, first_slot);
    inner->expect_within(300, "a test");
    std::unique_ptr<Ccl> library = open_ccl(shape_of("shm"), {});  // as each process has its own
    std::unique_ptr<Communicator> own;
    if (members.size() > 1) own = library->join(*host, ids[island], *inner);
    if (own != nullptr && streams.lazy) own = std::make_unique<LazyCommunicator>(std::move(own));
    Mail::Box box(mail, rank_group.rank());
    std::unique_ptr<Communicator> all =
        join_islands(device, rank_group, {firsts, through_host}, own.get(),
                     rank_group.on_one_host() ? nullptr : &box);
    Session session(device, rank_group, *all);
    session.reserve(kRoom, kRoom, {});
    body(session, rank_group);
  });
}

/// The sizes of bridge over 32, so that messages of several steps are small.
class SmallSlots {
 private:
  Variable host_{"CCLMARK_BRIDGE_HOST_SLOT_BYTES", "128K"};
  Variable direct_{"CCLMARK_BRIDGE_DIRECT_SLOT_BYTES", "2M"};
  Variable step_{"CCLMARK_BRIDGE_STEP_BYTES", "1M"};
  Variable apart_{"CCLMARK_BRIDGE_APART_BYTES", "128K"};
  Variable kernel_{"CCLMARK_BRIDGE_KERNEL_BYTES", "16K"};
};

struct Layout {
  std::vector<int> firsts;
  int ranks;
};
const Layout kLayouts[] = {{{0, 1}, 2}, {{0, 2}, 4}, {{0, 1, 3}, 5}, {{0, 1, 2}, 3}};

/// A library that is asked for nothing but its calls.
class Idle final : public Communicator {
 public:
  std::unique_ptr<Call> bind(const Operation&, void*) override {
    return make_call([](const void*, void*) {});
  }
  std::string route(const Operation&) const override { return "none"; }
};

uint64_t wrong(const VerificationResult& checked) {
  uint64_t sum = 0;
  for (const Finding& finding : checked.findings) sum += finding.wrong;
  return sum;
}

/// Runs each of these operations, and checks its outputs.
void check_each(Session& session, std::initializer_list<Collective> collectives, size_t count) {
  for (Collective collective : collectives) {
    Operation op;
    op.collective = collective;
    op.count = count;
    session.prepare(op, false, 7);
    session.run({Timing::throughput, 2});
    INFO(name(collective));
    CHECK(wrong(session.verify({})) == 0);
  }
}

std::vector<size_t> skewed(int ranks, size_t count) {
  std::vector<size_t> matrix;
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      matrix.push_back(count * static_cast<size_t>((from + 2 * to) % 4));
    }
  }
  return matrix;
}

}  // namespace

TEST_CASE("between islands every operation gives what one library would") {
  for (const Layout& layout : kLayouts) {
    // ThreadSanitizer: the layouts with a last island of several ranks contain every access.
    if (kThreadsWatched && layout.firsts.back() + 1 == layout.ranks) continue;
    for (bool through_host : {false, true}) {
      on_islands(layout.firsts, layout.ranks, through_host, [&](Session& session, RankGroup&) {
        for (size_t i = 0; i < kCollectives.size(); ++i) {
          Operation op;
          op.collective = static_cast<Collective>(i);
          if (is_of_two(op.collective)) continue;
          // One element, some that fit no vector, and enough for the way in parts.
          for (size_t count : {1, 1027, 100'003}) {
            if (kWatched && count > 1027) continue;
            op.count = op.collective == Collective::barrier ? 0 : count;
            if (op.collective == Collective::alltoallv) op.matrix = skewed(layout.ranks, count);
            op.root = layout.ranks - 2;
            for (bool in_place : {false, true}) {
              if (kThreadsWatched && in_place == (count == 1)) continue;
              session.prepare(op, in_place, 7);
              session.run({Timing::throughput, 3});
              INFO(kCollectives[i], " ", count, " ", layout.ranks, " ", in_place, through_host);
              CHECK(wrong(session.verify({})) == 0);
            }
          }
        }
      });
    }
  }
}

TEST_CASE("between hosts every operation gives what one library would") {
  struct Spread {
    std::vector<int> firsts, hosts;
  };
  for (const Spread& spread :
       {Spread{{0, 1}, {0, 1}}, Spread{{0, 2}, {0, 0, 1, 1}}, Spread{{0, 1, 3}, {0, 1, 1, 2, 2}},
        Spread{{0, 1, 2}, {0, 0, 1, 1}}}) {
    for (bool lazy : {false, true}) {
      if (kWatched && lazy) continue;
      auto body = [&](Session& session, RankGroup& rank_group) {
        for (size_t i = 0; i < kCollectives.size(); ++i) {
          Operation op;
          op.collective = static_cast<Collective>(i);
          if (is_of_two(op.collective)) continue;
          for (size_t count : {1, 1027, 100'003}) {
            if (kWatched ? count > 1027 : lazy && count < 2000) continue;
            op.count = op.collective == Collective::barrier ? 0 : count;
            if (op.collective == Collective::alltoallv) {
              op.matrix = skewed(rank_group.size(), count);
            }
            op.root = count == 1 ? 0 : rank_group.size() - 2;
            op.reduction = count == 1 ? Reduction::avg : Reduction::sum;
            bool in_place = count == 1027;
            session.prepare(op, in_place, 7);
            session.run({Timing::throughput, kThreadsWatched ? 3 : 6});
            INFO(kCollectives[i], " ", count, " ", rank_group.size(), " ", lazy);
            CHECK(wrong(session.verify({})) == 0);
          }
        }
        CHECK(session.route() == std::to_string(spread.firsts.size()) +
                                     " islands, through pinned host memory and MPI between hosts");
      };
      on_islands(spread.firsts, static_cast<int>(spread.hosts.size()), false, body, {lazy, -1},
                 spread.hosts);
    }
  }
}

TEST_CASE("between hosts messages may be larger than all slots together" *
          doctest::skip(kWatched)) {
  SmallSlots small;
  for (int slow : {-1, 4}) {
    on_islands({0, 2}, 3, false,
               [&](Session& session, RankGroup&) {
                 for (Collective collective :
                      {Collective::all_reduce, Collective::reduce_scatter, Collective::broadcast,
                       Collective::all_gather, Collective::alltoall}) {
                   Operation op;
                   op.collective = collective;
                   op.count = 160'003;
                   session.prepare(op, false, 7);
                   session.run({Timing::throughput, 2});
                   INFO(name(collective), " ", slow);
                   CHECK(wrong(session.verify({})) == 0);
                 }
               },
               {slow >= 0, slow}, {0, 0, 1});
  }
}

TEST_CASE("a rank whose host exchange fails reports the error, and the ranks of its host stop") {
  std::atomic<int> told = 0, stopped = 0;
  Mail mail;
  auto body = [&](RankGroup& rank_group, int) {
    auto device = open_host_device(rank_group.rank());
    Mail::Box box(mail, rank_group.rank());
    if (rank_group.rank() == 1) box.fails_after = 200;
    auto all = join_islands(*device, rank_group, {{0, 1, 2}, false}, nullptr, &box);
    Session session(*device, rank_group, *all);
    session.reserve(1 << 20, 1 << 20, {});
    Operation op;
    op.count = 1000;
    try {
      session.prepare(op, false, 1);
      for (;;) session.run({Timing::throughput, 5});
    } catch (const Error&) {
      if (rank_group.aborted()) ++stopped;
      try {
        all->check();
      } catch (const Error& error) {
        if (std::string(error.what()) == "the host exchange is broken") ++told;
      }
      throw;
    }
  };
  // The other host has to be told by whoever started it; here its patience ends. That of the
  // others must last for all messages, on busy processors as well.
  const std::chrono::seconds patience(kThreadsWatched ? 10 : 5);
  CHECK_THROWS(run_ranks_on_hosts({0, 1, 1}, body, patience));
  CHECK(stopped == 2);
  CHECK(told == 1);
}

TEST_CASE("whoever takes something is among the readers of what it is taken from") {
  struct Spread {
    std::vector<int> firsts;
    int ranks;
  };
  Idle island;
  for (const Spread& spread : {Spread{{0, 1}, 2}, Spread{{0, 2}, 4}, Spread{{0, 1, 4}, 6},
                               Spread{{0, 3, 5}, 9}, Spread{{0, 1, 2, 6}, 8}}) {
    IslandMap map(spread.firsts, spread.ranks);
    for (size_t i = 0; i < kCollectives.size(); ++i) {
      Operation op;
      op.collective = static_cast<Collective>(i);
      if (is_of_two(op.collective)) continue;
      for (size_t count : {1, 1027, 300'007}) {
        op.count = op.collective == Collective::barrier ? 0 : count;
        op.root = spread.ranks / 2;
        if (op.collective == Collective::alltoallv) op.matrix = skewed(spread.ranks, count);
        // By publisher and reader: what is offered and what is taken, in the order of the steps.
        using Part = std::tuple<size_t, size_t, size_t>;
        std::map<std::pair<int, int>, std::vector<Part>> offered, taken;
        for (int rank = 0; rank < spread.ranks; ++rank) {
          bool alone = map.ranks_of(map.island_of(rank)) == 1;
          PlanSite site{alone ? nullptr : &island, map, rank, size_t{1} << 18, nullptr};
          std::map<int, size_t> seen;
          for (const Step& step : plan_between_islands(site, op)) {
            for (int publisher : step.publishers) ++seen[publisher];
            if (step.publishes) {
              for (const Reader& reader : step.readers) {
                offered[{rank, reader.rank}].push_back({seen[rank], reader.at, reader.bytes});
              }
            }
            for (const Take& take : step.takes) {
              taken[{take.source, rank}].push_back({seen[take.source], take.at, take.bytes});
            }
          }
        }
        INFO(kCollectives[i], " ", count, " ", spread.ranks);
        CHECK(offered == taken);
      }
    }
  }
}

TEST_CASE("islands on hosts that nothing connects are refused") {
  run_ranks_on_hosts({0, 1}, [](RankGroup& rank_group, int) {
    auto device = open_host_device(rank_group.rank());
    CHECK_THROWS_AS(join_islands(*device, rank_group, {{0, 1}, false}, nullptr), Error);
  });
}

TEST_CASE("between islands messages may be larger than all slots together" *
          doctest::skip(kWatched)) {
  SmallSlots small;
  on_islands({0, 1}, 3, true, [&](Session& session, RankGroup&) {
    check_each(session,
               {Collective::all_reduce, Collective::reduce_scatter, Collective::broadcast,
                Collective::alltoall},
               160'003);
  });
}

TEST_CASE("between islands streams may be behind each other" * doctest::skip(kWatched)) {
  // In the order of their making: one to try flags with, what goes out, two for what comes in, and
  // the session's own.
  constexpr int kNone = -1, kMain = 4;
  SmallSlots small;
  for (int slow : {kNone, kMain}) {
    for (const Layout& layout : {Layout{{0, 1}, 2}, Layout{{0, 1}, 3}}) {
      bool through_host = layout.ranks == 2;
      on_islands(layout.firsts, layout.ranks, through_host,
                 [&](Session& session, RankGroup&) {
                   for (Collective collective :
                        {Collective::all_reduce, Collective::reduce_scatter, Collective::reduce,
                         Collective::broadcast, Collective::all_gather, Collective::alltoall}) {
                     Operation op;
                     op.collective = collective;
                     op.root = 1;
                     // Several steps: more than a slot, on the way through the host and on the
                     // other.
                     op.count =
                         (through_host ? 80'003 : 850'003) / static_cast<size_t>(layout.ranks);
                     if (collective == Collective::all_reduce) op.count *= 2;
                     for (bool in_place : {false, true}) {
                       session.prepare(op, in_place, 7);
                       session.run({Timing::throughput, 2});
                       INFO(name(collective), " ", layout.ranks, " ", in_place, " ", slow);
                       CHECK(wrong(session.verify({})) == 0);
                     }
                   }
                 },
                 {true, slow});
    }
  }
}

TEST_CASE("between many islands of unlike sizes nothing is shared out") {
  // What islands of 5, 7, 8, 9, 11 and 13 ranks can all divide is more than a slot holds.
  IslandMap map({0, 5, 12, 20, 29, 40}, 53);
  Idle island;
  for (Collective collective : {Collective::all_reduce, Collective::broadcast}) {
    Operation op;
    op.collective = collective;
    op.count = 4'000'003;
    PlanSite site{&island, map, 7, size_t{1} << 20, nullptr};
    CHECK(plan_between_islands(site, op).size() < 20);
  }
}

TEST_CASE("above a size that can be set, results are shared out within an island") {
  IslandMap map({0, 2}, 4);
  Idle island;
  Operation op;
  op.count = 65'536;
  auto takes_of = [&](size_t whole_bytes) {
    PlanSite site{&island, map, 0, size_t{1} << 20, nullptr, whole_bytes};
    size_t bytes = 0;
    for (const Step& step : plan_between_islands(site, op)) {
      for (const Take& take : step.takes) bytes += take.bytes;
    }
    return bytes;
  };
  CHECK(takes_of(op.count * 4) == op.count * 4);
  CHECK(takes_of(op.count * 4 - 1) == op.count * 2);
  CHECK(takes_of(kUsualWholeBytes) == op.count * 4);
}

TEST_CASE("the sizes of slots, steps and thresholds between islands can be set") {
  const Streams at_once{}, enqueued{true, -1};
  auto slot_bytes_of = [](bool through_host, Streams streams) {
    size_t bytes = 0;
    auto body = [&](Session& session, RankGroup& rank_group) {
      check_each(session,
                 {Collective::all_reduce, Collective::reduce_scatter, Collective::broadcast,
                  Collective::alltoall},
                 100'003);
      if (rank_group.rank() != 0) return;
      for (const MemoryBlock& block : session.memory_blocks()) {
        if (std::string(block.purpose) == "slots of this rank") bytes = block.bytes;
      }
    };
    on_islands({0, 2}, 4, through_host, body, streams);
    return bytes;
  };
  CHECK(slot_bytes_of(true, at_once) == 4 * (size_t{3} << 20));
  CHECK(slot_bytes_of(false, at_once) == 4 * (size_t{3} << 20));
  // ThreadSanitizer does not see that flags of one rank, mapped by another, order their accesses.
  if (!kWatched) CHECK(slot_bytes_of(false, enqueued) == 4 * (size_t{64} << 20));
  Variable host("CCLMARK_BRIDGE_HOST_SLOT_BYTES", "64K"), whole("CCLMARK_BRIDGE_WHOLE_BYTES", "0");
  Variable direct("CCLMARK_BRIDGE_DIRECT_SLOT_BYTES", "128K"),
      step("CCLMARK_BRIDGE_STEP_BYTES", "64K");
  Variable apart("CCLMARK_BRIDGE_APART_BYTES", "0"), kernel("CCLMARK_BRIDGE_KERNEL_BYTES", "0");
  if (!kWatched) CHECK(slot_bytes_of(true, enqueued) == 4 * (size_t{64} << 10));
  CHECK(slot_bytes_of(false, at_once) == 4 * (size_t{64} << 10));
  if (!kWatched) CHECK(slot_bytes_of(false, enqueued) == 4 * (size_t{128} << 10));
}

TEST_CASE("between islands every type is reduced in every way" * doctest::skip(kWatched)) {
  on_islands({0, 2}, 3, false, [&](Session& session, RankGroup&) {
    for (size_t dtype = 0; dtype < kDtypes.size(); ++dtype) {
      for (size_t reduction = 0; reduction < kReductions.size(); ++reduction) {
        for (Collective collective :
             {Collective::all_reduce, Collective::reduce_scatter, Collective::reduce}) {
          Operation op;
          op.collective = collective;
          op.dtype = static_cast<Dtype>(dtype);
          op.reduction = static_cast<Reduction>(reduction);
          // Enough for the way in parts, and a rest.
          op.count = 600'001 / size_bytes(op.dtype);
          session.prepare(op, false, 3);
          INFO(kDtypes[dtype].name, " ", kReductions[reduction], " ", name(collective));
          CHECK(wrong(session.verify({})) == 0);
        }
      }
    }
  });
}

TEST_CASE("what is flipped between islands is found") {
  on_islands({0, 1}, 2, true, [&](Session& session, RankGroup& rank_group) {
    Operation op;
    op.count = 100'000;
    session.prepare(op, false, 1);
    std::optional<size_t> corrupt;
    if (rank_group.rank() == 1) corrupt = 70'000;
    VerificationResult checked = session.verify(corrupt);
    CHECK(checked.findings[0].wrong == 0);
    CHECK(checked.findings[1].wrong == 1);
    CHECK(checked.findings[1].first_element == 70'000);
  });
}

TEST_CASE("islands that are none are refused") {
  run_ranks(3, [](RankGroup& rank_group) {
    auto device = open_host_device(rank_group.rank());
    for (const std::vector<int>& firsts :
         std::vector<std::vector<int>>{{}, {0}, {1, 2}, {0, 0, 1}, {0, 2, 1}, {0, 3}}) {
      CHECK_THROWS_AS(join_islands(*device, rank_group, {firsts, false}, nullptr), Error);
    }
    // Ranks 0 and 1 would need a library.
    if (rank_group.rank() < 2) {
      CHECK_THROWS_AS(join_islands(*device, rank_group, {{0, 2}, false}, nullptr), Error);
    }
  });
}
