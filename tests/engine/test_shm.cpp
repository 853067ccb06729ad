#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "environment.hpp"
#include "measure/session.hpp"
#include "ranks.hpp"
#include "sanitizers.hpp"
#include "shapes.hpp"

using namespace cclmark;

namespace {

struct ShmRank {
  std::unique_ptr<Device> device;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Session> session;
};

/// Lets `body` run on `ranks` ranks that share a communicator of shm.
template <typename Body>
void with_shm(int ranks, size_t buffer_bytes, Body body) {
  auto ccl = open_ccl(shape_of("shm"), {});
  std::vector<uint8_t> id = ccl->make_id(ranks);
  run_ranks(ranks, [&](RankGroup& rank_group) {
    ShmRank own;
    own.device = open_host_device(rank_group.rank());
    own.communicator = ccl->join(*own.device, id, rank_group);
    own.session = std::make_unique<Session>(*own.device, rank_group, *own.communicator);
    own.session->reserve(buffer_bytes, buffer_bytes, {});
    body(rank_group, *own.session);
    rank_group.barrier();
  });
}

std::string describe(const Operation& op, bool in_place) {
  return std::string(name(op.collective)) + " " + std::string(name(op.dtype)) + " " +
         std::string(name(op.reduction)) + " count " + std::to_string(op.count) + " root " +
         std::to_string(op.root) + (in_place ? " in place" : " out of place");
}

void expect_right(Session& session, const Operation& op, bool in_place) {
  session.prepare(op, in_place, 9);
  session.run({Timing::throughput, 3});
  for (const Finding& finding : session.verify({}).findings) {
    if (finding.wrong > 0) throw Error("wrong data from " + describe(op, in_place));
  }
}

}  // namespace

TEST_CASE("every collective gives right data, in place and not, at any size and root") {
  for (int ranks : {1, 2, 3, 5}) {
    with_shm(ranks, size_t{8} << 20, [&](RankGroup& rank_group, Session& session) {
      int n = rank_group.size();
      for (size_t c = 0; c < kCollectives.size(); ++c) {
        if (static_cast<Collective>(c) == Collective::ping_pong && n != 2) continue;
        for (size_t count : {size_t{1}, size_t{37}, size_t{4096}, size_t{100003}}) {
          if (kThreadsWatched && count > 4096 && ranks != 3) continue;
          for (int root : {0, n - 1}) {
            for (bool in_place : {false, true}) {
              if (kThreadsWatched && in_place == (root == 0) && n > 1) continue;
              Operation op;
              op.collective = static_cast<Collective>(c);
              op.count = op.collective == Collective::barrier ? 0 : count;
              op.root = root;
              if (op.collective == Collective::alltoallv) {
                for (int cell = 0; cell < n * n; ++cell) {
                  op.matrix.push_back(count * static_cast<size_t>(cell % 3));
                }
              }
              expect_right(session, op, in_place);
            }
          }
        }
      }
    });
  }
}

TEST_CASE("what travels in announcements, and what goes past the cache, can be set") {
  auto kernel_of = [](size_t bytes) {
    std::string kernel;
    with_shm(2, size_t{8} << 20, [&](RankGroup& rank_group, Session& session) {
      Operation op;
      op.count = bytes / 4;
      expect_right(session, op, false);
      if (rank_group.rank() == 0) kernel = session.kernel();
    });
    return kernel;
  };
  const std::string inlined = "inline in announcements", sliced = "each rank reduces one slice";
  CHECK(kernel_of(2048) == inlined);
  CHECK(kernel_of(2052) == sliced);
  {
    Variable less("CCLMARK_SHM_INLINE_BYTES", "0");
    CHECK(kernel_of(4) == sliced);
  }
  {
    Variable most("CCLMARK_SHM_INLINE_BYTES", "64K");
    CHECK(kernel_of(65536) == inlined);
    CHECK(kernel_of(65540) == sliced);
  }
  CHECK(kernel_of(size_t{2} << 20) == sliced + ", past the cache");
  Variable all("CCLMARK_SHM_STREAM_BYTES", "0");
  CHECK(kernel_of(4096) == sliced + ", past the cache");
}

TEST_CASE("every operation gives right data whatever travels in announcements") {
  for (const char* bytes : {"0", "1", "72", "5000", "64K"}) {
    if (kThreadsWatched && std::string(bytes) == "1") continue;
    Variable variable("CCLMARK_SHM_INLINE_BYTES", bytes);
    with_shm(3, size_t{4} << 20, [&](RankGroup&, Session& session) {
      for (size_t c = 0; c < kCollectives.size(); ++c) {
        if (static_cast<Collective>(c) == Collective::ping_pong) continue;
        for (size_t count : {size_t{1}, size_t{18}, size_t{1250}, size_t{16384}, size_t{16385}}) {
          if (kThreadsWatched && count == 16384) continue;
          Operation op;
          op.collective = static_cast<Collective>(c);
          op.count = op.collective == Collective::barrier ? 0 : count;
          if (op.collective == Collective::alltoallv) op.matrix.assign(9, count);
          expect_right(session, op, false);
        }
      }
    });
  }
}

TEST_CASE("a communicator with a size that is not allowed is not created") {
  auto ccl = open_ccl(shape_of("shm"), {});
  std::vector<uint8_t> id = ccl->make_id(2);
  Variable variable("CCLMARK_SHM_INLINE_BYTES", "1M");
  CHECK_THROWS_AS(ccl->make_id(2), UsageError);
  run_ranks(2, [&](RankGroup& rank_group) {
    auto device = open_host_device(rank_group.rank());
    CHECK_THROWS_AS(ccl->join(*device, id, rank_group), UsageError);
  });
}

TEST_CASE("a ping-pong requires two ranks") {
  with_shm(3, size_t{1} << 20, [](RankGroup&, Session& session) {
    Operation op;
    op.collective = Collective::ping_pong;
    op.count = 16;
    CHECK_THROWS_WITH_AS(session.prepare(op, false, 9), "ping_pong requires two ranks",
                         UnsupportedError);
  });
}

TEST_CASE("a rank that answers from where it receives gives the first rank its own message back") {
  for (size_t count : {size_t{16}, size_t{100000}}) {
    auto ccl = open_ccl(shape_of("shm"), {});
    std::vector<uint8_t> id = ccl->make_id(2);
    run_ranks(2, [&](RankGroup& rank_group) {
      auto device = open_host_device(rank_group.rank());
      auto communicator = ccl->join(*device, id, rank_group);
      Operation op;
      op.collective = Collective::ping_pong;
      op.dtype = Dtype::int32;
      op.count = count;
      std::unique_ptr<Call> call = communicator->bind(op, nullptr);
      Buffer question(*device, count * sizeof(int)), answer(*device, count * sizeof(int));
      auto asked = reinterpret_cast<int*>(question.data());
      auto told = reinterpret_cast<int*>(answer.data());
      std::fill_n(asked, count, rank_group.rank() == 0 ? 7 : 8);
      std::fill_n(told, count, 9);
      if (rank_group.rank() == 0) {
        call->enqueue(asked, told);
        if (std::count(told, told + count, 7) != static_cast<ptrdiff_t>(count)) {
          throw Error("the answer was given before the question came");
        }
      } else {
        call->enqueue(told, told);
      }
      rank_group.barrier();
    });
  }
}

TEST_CASE("every type and reduction gives right data") {
  with_shm(3, size_t{4} << 20, [&](RankGroup&, Session& session) {
    for (size_t dtype = 0; dtype < kDtypes.size(); ++dtype) {
      for (size_t reduction = 0; reduction < kReductions.size(); ++reduction) {
        if (kThreadsWatched && dtype > 0 && reduction > 0) continue;
        for (Collective collective : {Collective::all_reduce, Collective::reduce_scatter}) {
          Operation op;
          op.collective = collective;
          op.dtype = static_cast<Dtype>(dtype);
          op.reduction = static_cast<Reduction>(reduction);
          op.count = 5003;
          expect_right(session, op, false);
          op.count = 16;
          expect_right(session, op, true);
        }
      }
    }
  });
}

TEST_CASE("a corrupted element is found on its rank, at its index") {
  with_shm(2, size_t{1} << 20, [&](RankGroup& rank_group, Session& session) {
    Operation op;
    op.count = 1000;
    session.prepare(op, false, 9);
    auto corrupt = rank_group.rank() == 1 ? std::optional<size_t>(5) : std::nullopt;
    std::vector<Finding> findings = session.verify(corrupt).findings;
    if (findings[0].wrong != 0 || findings[1].wrong != 1) throw Error("not found");
    if (findings[1].first_element != 5) throw Error("found elsewhere");
    if ((findings[1].expected_bits ^ findings[1].actual_bits) != 0xffffffffu) {
      throw Error("expected and actual value are not the flipped ones");
    }
  });
}

TEST_CASE("samples of every timing come from every rank") {
  with_shm(2, size_t{1} << 20, [&](RankGroup&, Session& session) {
    Operation op;
    op.count = 1000;
    session.prepare(op, false, 9);
    for (Timing timing : {Timing::throughput, Timing::blocking, Timing::per_op}) {
      Samples samples = session.run({timing, 4});
      size_t expected = timing == Timing::throughput ? 1 : 4;
      if (samples.count != expected || samples.host_s.size() != 2 * expected) {
        throw Error("wrong number of samples");
      }
      for (double time_s : samples.host_s) {
        if (!(time_s > 0)) throw Error("no time passed");
      }
    }
    bool refused = false;
    try {
      session.run({Timing::graph, 4});
    } catch (const UnsupportedError&) {
      refused = true;
    }
    if (!refused) throw Error("the host has no graphs");
  });
}

TEST_CASE("a peer that never comes ends the operation, not the patience of the user") {
  CHECK_THROWS_AS(with_shm(2, size_t{1} << 20,
                           [&](RankGroup& rank_group, Session& session) {
                             Operation op;
                             op.count = 100000;
                             session.prepare(op, false, 9);
                             rank_group.expect_within(0.2, "timing");
                             if (rank_group.rank() == 0) session.run({Timing::throughput, 1});
                             if (rank_group.rank() == 1) throw TimeoutError("away");
                           }),
                  std::exception);
}

TEST_CASE("buffers that are too small are refused before anything is written") {
  with_shm(1, 1024, [&](RankGroup&, Session& session) {
    Operation op;
    op.count = size_t{1} << 32;
    bool refused = false;
    try {
      session.prepare(op, false, 9);
    } catch (const Error&) {
      refused = true;
    }
    if (!refused) throw Error("accepted");
  });
}
