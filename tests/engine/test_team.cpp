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
  run_ranks(4, [&](Team& team) {
    for (int round = 1; round <= 200; ++round) {
      ++arrived;
      team.barrier();
      if (arrived.load() < 4 * round) throw Error("passed too early");
      team.barrier();
    }
  });
}

TEST_CASE("gather gives everybody everything, also more than fits at once") {
  run_ranks(3, [](Team& team) {
    for (size_t count : {size_t{1}, size_t{255}, size_t{256}, size_t{257}, size_t{2000}}) {
      std::vector<double> own(count);
      std::iota(own.begin(), own.end(), 10000.0 * team.rank());
      std::vector<double> all = team.gather(own);
      for (size_t rank = 0; rank < 3; ++rank) {
        for (size_t i = 0; i < count; ++i) {
          if (all[rank * count + i] != 10000.0 * static_cast<double>(rank) + static_cast<double>(i))
            throw Error("wrong value");
        }
      }
    }
  });
}

TEST_CASE("a rank that does not come is named") {
  std::string message;
  CHECK_THROWS_AS(run_ranks(2,
                            [&](Team& team) {
                              if (team.rank() == 1) return;
                              team.expect_within(0.1, "timing of all_reduce");
                              try {
                                team.barrier();
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
  CHECK_THROWS(run_ranks(3, [&](Team& team) {
    if (team.rank() == 2) throw Error("broken");
    try {
      team.barrier();
    } catch (const AbortedError&) {
      ++released;
    }
  }));
  CHECK(released == 2);
}

TEST_CASE("groups of a team meet by themselves, also when some rest") {
  std::atomic<int> meetings = 0;
  run_ranks_on_file(5, [&](Team& team, int fd) {
    size_t taken = 5;
    for (std::vector<int> members : {std::vector<int>{3, 1}, {0, 2, 4}, {1, 4}}) {
      bool inside = std::ranges::count(members, team.rank()) > 0;
      if (inside) {
        auto group = team.group(fd, members, taken);
        if (members[static_cast<size_t>(group->rank())] != team.rank()) throw Error("wrong rank");
        for (int round = 0; round < 50; ++round) {
          auto sum = group->gather(std::array{1.0 * team.rank()});
          if (!std::ranges::equal(sum, members)) throw Error("another group's values");
          ++meetings;
        }
      }
      team.rest(!inside);
      team.barrier();
      team.rest(false);
      taken += members.size();
    }
  });
  CHECK(meetings == 50 * (2 + 3 + 2));
}

TEST_CASE("a group stops with its team, and calls its ranks as the team does") {
  std::string message;
  CHECK_THROWS_AS(run_ranks_on_file(4,
                                    [&](Team& team, int fd) {
                                      if (team.rank() != 2) return;
                                      auto group = team.group(fd, {3, 2}, 4);
                                      group->expect_within(0.1, "timing");
                                      try {
                                        group->barrier();
                                      } catch (const TimeoutError& error) {
                                        message = error.what();
                                        throw;
                                      }
                                    }),
                  TimeoutError);
  CHECK(message.find("for rank 3") != std::string::npos);
  std::atomic<int> released = 0;
  CHECK_THROWS(run_ranks_on_file(3, [&](Team& team, int fd) {
    if (team.rank() == 2) throw Error("broken");
    if (team.rank() == 1) return;
    auto group = team.group(fd, {0, 1}, 3);
    try {
      group->barrier();
    } catch (const AbortedError&) {
      ++released;
    }
  }));
  CHECK(released == 1);
  run_ranks_on_file(2, [](Team& team, int fd) {
    if (team.rank() == 0) CHECK_THROWS_AS(team.group(fd, {1}, 2), Error);
  });
}

TEST_CASE("impossible ranks are refused") {
  CHECK_THROWS_AS(Team({.fd = -1}), Error);
  CHECK_THROWS_AS(Team({.fd = 0, .rank = 3, .size = 2}), Error);
}

TEST_CASE("ranks of several hosts meet and gather like those of one") {
  std::atomic<int> arrived = 0;
  std::atomic<int> wrong = 0;
  run_ranks_on_hosts({0, 1, 1, 0, 2}, [&](Team& team, int fd) {
    int rank = team.rank();
    for (int round = 1; round <= 50; ++round) {
      ++arrived;
      team.barrier();
      if (arrived.load() < 5 * round) ++wrong;
      std::vector<double> own(300, 1000.0 * round + rank);
      std::vector<double> all = team.gather(own);
      for (size_t i = 0; i < all.size(); ++i) {
        if (all[i] != 1000.0 * round + static_cast<double>(i / 300)) ++wrong;
      }
    }
    size_t taken = 5;
    for (std::vector<int> members : {std::vector<int>{4, 1}, {0, 3, 2}}) {
      size_t first_slot = std::exchange(taken, taken + members.size());
      if (std::ranges::count(members, rank) == 0) continue;
      std::unique_ptr<Team> group = team.group(fd, members, first_slot);
      group->expect_within(300, "a test");
      for (int round = 0; round < 20; ++round) {
        std::vector<double> all = group->gather(std::array<double, 1>{double(rank)});
        if (all != std::vector<double>(members.begin(), members.end())) ++wrong;
      }
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("hosts that cannot reach each other make no team") {
  run_ranks_on_file(1, [](Team&, int fd) {
    CHECK_THROWS_AS(Team({.fd = fd, .size = 2, .oversubscribed = true, .hosts = {0, 1}}), Error);
    CHECK_THROWS_AS(Team({.fd = fd, .size = 2, .oversubscribed = true, .hosts = {0}}), Error);
    auto brings_nothing = [](const std::vector<int>&, const std::vector<double>&) {
      return std::vector<double>{};
    };
    Team team(
        {.fd = fd, .size = 2, .oversubscribed = true, .hosts = {0, 1}, .courier = brings_nothing});
    CHECK_THROWS_AS(team.gather(std::array<double, 1>{1.0}), Error);
  });
}
