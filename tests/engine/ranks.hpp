#pragma once

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/team.hpp"

namespace cclmark {

/// Runs `body` on `ranks` threads, each with its own view of one team, as processes would be.
/// The first exception of any rank is thrown again. The file is where the team meets.
inline void run_ranks_on_file(int ranks, const std::function<void(Team&, int fd)>& body) {
  int fd = memfd_create("test-team", MFD_CLOEXEC);
  REQUIRE(fd >= 0);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Team team(fd, rank, ranks, true);
        team.expect_within(300, "a test");  // sanitizers on busy machines are slow
        try {
          body(team, fd);
        } catch (...) {
          team.abort();
          throw;
        }
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  close(fd);
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

inline void run_ranks(int ranks, const std::function<void(Team&)>& body) {
  run_ranks_on_file(ranks, [&body](Team& team, int) { body(team); });
}

}  // namespace cclmark
