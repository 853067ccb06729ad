#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "ranks.hpp"

using namespace cclmark;

TEST_CASE("nobody passes a barrier before everybody came") {
  std::atomic<int> arrived = 0;
  run_ranks(4, [&](RankGroup& rank_group) {
    for (int round = 1; round <= 200; ++round) {
      ++arrived;
      rank_group.barrier();
      if (arrived.load() < 4 * round) throw Error("passed too early");
      rank_group.barrier();
    }
  });
}

TEST_CASE("gather gives everybody everything, also more than fits at once") {
  run_ranks(3, [](RankGroup& rank_group) {
    for (size_t count : {size_t{1}, size_t{255}, size_t{256}, size_t{257}, size_t{2000}}) {
      std::vector<double> own(count);
      std::iota(own.begin(), own.end(), 10000.0 * rank_group.rank());
      std::vector<double> all = rank_group.gather(own);
      for (size_t rank = 0; rank < 3; ++rank) {
        for (size_t i = 0; i < count; ++i) {
          if (all[rank * count + i] != 10000.0 * static_cast<double>(rank) + static_cast<double>(i))
            throw Error("wrong value");
        }
      }
    }
  });
}

TEST_CASE("every rank gets the text of one, as far as it fits") {
  run_ranks(3, [](RankGroup& rank_group) {
    std::string own = "rank " + std::to_string(rank_group.rank()) + " has no channel";
    if (rank_group.text_of(2, own) != "rank 2 has no channel") throw Error("wrong text");
    std::string text = rank_group.text_of(0, std::string(3 * RankGroup::kTextBytes, 'x'));
    if (text != std::string(RankGroup::kTextBytes, 'x')) throw Error("wrong length");
  });
}

TEST_CASE("a rank that does not come is named") {
  std::string message;
  CHECK_THROWS_AS(run_ranks(2,
                            [&](RankGroup& rank_group) {
                              if (rank_group.rank() == 1) return;
                              rank_group.expect_within(0.1, "timing of all_reduce");
                              try {
                                rank_group.barrier();
                              } catch (const TimeoutError& error) {
                                message = error.what();
                                throw;
                              }
                            }),
                  TimeoutError);
  CHECK(message.find("rank 1") != std::string::npos);
  CHECK(message.find("timing of all_reduce") != std::string::npos);
}

TEST_CASE("when one rank gives up the others stop waiting") {
  std::atomic<int> released = 0;
  CHECK_THROWS(run_ranks(3, [&](RankGroup& rank_group) {
    if (rank_group.rank() == 2) throw Error("broken");
    try {
      rank_group.barrier();
    } catch (const AbortedError&) {
      ++released;
    }
  }));
  CHECK(released == 2);
}

TEST_CASE("subgroups of a rank group meet by themselves, also when some rest") {
  std::atomic<int> meetings = 0;
  run_ranks_on_file(5, [&](RankGroup& rank_group, int fd) {
    size_t taken = 5;
    for (std::vector<int> members : {std::vector<int>{3, 1}, {0, 2, 4}, {1, 4}}) {
      bool inside = std::ranges::count(members, rank_group.rank()) > 0;
      if (inside) {
        auto subgroup = rank_group.subgroup(fd, members, taken);
        if (members[static_cast<size_t>(subgroup->rank())] != rank_group.rank()) {
          throw Error("wrong rank");
        }
        for (int round = 0; round < 50; ++round) {
          auto sum = subgroup->gather(std::array{1.0 * rank_group.rank()});
          if (!std::ranges::equal(sum, members)) throw Error("another subgroup's values");
          ++meetings;
        }
      }
      rank_group.rest(!inside);
      rank_group.barrier();
      rank_group.rest(false);
      taken += members.size();
    }
  });
  CHECK(meetings == 50 * (2 + 3 + 2));
}

TEST_CASE("a subgroup stops with its rank group, and calls its ranks as that does") {
  std::string message;
  CHECK_THROWS_AS(run_ranks_on_file(4,
                                    [&](RankGroup& rank_group, int fd) {
                                      if (rank_group.rank() != 2) return;
                                      auto subgroup = rank_group.subgroup(fd, {3, 2}, 4);
                                      subgroup->expect_within(0.1, "timing");
                                      try {
                                        subgroup->barrier();
                                      } catch (const TimeoutError& error) {
                                        message = error.what();
                                        throw;
                                      }
                                    }),
                  TimeoutError);
  CHECK(message.find("for rank 3") != std::string::npos);
  std::atomic<int> released = 0;
  CHECK_THROWS(run_ranks_on_file(3, [&](RankGroup& rank_group, int fd) {
    if (rank_group.rank() == 2) throw Error("broken");
    if (rank_group.rank() == 1) return;
    auto subgroup = rank_group.subgroup(fd, {0, 1}, 3);
    try {
      subgroup->barrier();
    } catch (const AbortedError&) {
      ++released;
    }
  }));
  CHECK(released == 1);
  run_ranks_on_file(2, [](RankGroup& rank_group, int fd) {
    if (rank_group.rank() == 0) CHECK_THROWS_AS(rank_group.subgroup(fd, {1}, 2), Error);
  });
}

TEST_CASE("impossible ranks are refused") {
  CHECK_THROWS_AS(RankGroup({.fd = -1}), Error);
  CHECK_THROWS_AS(RankGroup({.fd = 0, .rank = 3, .size = 2}), Error);
}

TEST_CASE("ranks of several hosts meet and gather like those of one") {
  std::atomic<int> arrived = 0;
  std::atomic<int> wrong = 0;
  run_ranks_on_hosts({0, 1, 1, 0, 2}, [&](RankGroup& rank_group, int fd) {
    int rank = rank_group.rank();
    for (int round = 1; round <= 50; ++round) {
      ++arrived;
      rank_group.barrier();
      if (arrived.load() < 5 * round) ++wrong;
      std::vector<double> own(300, 1000.0 * round + rank);
      std::vector<double> all = rank_group.gather(own);
      for (size_t i = 0; i < all.size(); ++i) {
        if (all[i] != 1000.0 * round + static_cast<double>(i / 300)) ++wrong;
      }
    }
    size_t taken = 5;
    for (std::vector<int> members : {std::vector<int>{4, 1}, {0, 3, 2}}) {
      size_t first_slot = std::exchange(taken, taken + members.size());
      if (std::ranges::count(members, rank) == 0) continue;
      std::unique_ptr<RankGroup> subgroup = rank_group.subgroup(fd, members, first_slot);
      subgroup->expect_within(300, "a test");
      for (int round = 0; round < 20; ++round) {
        std::vector<double> all = subgroup->gather(std::array<double, 1>{double(rank)});
        if (all != std::vector<double>(members.begin(), members.end())) ++wrong;
      }
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("hosts that cannot reach each other make no rank group") {
  run_ranks_on_file(1, [](RankGroup&, int fd) {
    CHECK_THROWS_AS(RankGroup({.fd = fd, .size = 2, .oversubscribed = true, .hosts = {0, 1}}),
                    Error);
    CHECK_THROWS_AS(RankGroup({.fd = fd, .size = 2, .oversubscribed = true, .hosts = {0}}), Error);
    auto brings_nothing = [](const std::vector<int>&, const std::vector<double>&) {
      return std::vector<double>{};
    };
    RankGroup rank_group({.fd = fd,
                          .size = 2,
                          .oversubscribed = true,
                          .hosts = {0, 1},
                          .value_exchange = brings_nothing});
    CHECK_THROWS_AS(rank_group.gather(std::array<double, 1>{1.0}), Error);
  });
}
