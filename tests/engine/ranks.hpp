#pragma once

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/rank_group.hpp"
#include "postroom.hpp"

namespace cclmark {

/// Runs `body` on threads, one for each rank with its own view of one rank group, as processes
/// would be. `hosts`: the number of each rank's host. The first exception of any rank is thrown
/// again. The file is where the ranks of a host meet.
inline void run_ranks_on_hosts(const std::vector<int>& hosts,
                               const std::function<void(RankGroup&, int fd)>& body,
                               std::chrono::seconds patience = std::chrono::seconds(300)) {
  bool several = std::ranges::any_of(hosts, [&](int host) { return host != hosts.front(); });
  Postroom postroom(hosts);
  postroom.patience = patience;
  std::map<int, int> files;
  for (int host : hosts) {
    if (files.contains(host)) continue;
    files[host] = memfd_create("test-rank-group", MFD_CLOEXEC);
    REQUIRE(files[host] >= 0);
  }
  std::vector<std::exception_ptr> errors(hosts.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    threads.emplace_back([&, rank] {
      int host = hosts[rank], fd = files[host];
      auto value_exchange = [&, host](const std::vector<int>& members,
                                      const std::vector<double>& own) {
        return postroom.exchange(host, members, own);
      };
      try {
        RankGroup rank_group(
            {.fd = fd,
             .rank = static_cast<int>(rank),
             .size = static_cast<int>(hosts.size()),
             .oversubscribed = true,
             .hosts = several ? hosts : std::vector<int>{},
             .value_exchange = several ? value_exchange : RankGroup::HostValueExchange(nullptr)});
        // Sanitizers on busy machines are slow.
        rank_group.expect_within(static_cast<double>(patience.count()), "a test");
        try {
          body(rank_group, fd);
        } catch (...) {
          rank_group.abort();
          throw;
        }
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto [host, fd] : files) close(fd);
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

inline void run_ranks_on_file(int ranks, const std::function<void(RankGroup&, int fd)>& body) {
  run_ranks_on_hosts(std::vector<int>(static_cast<size_t>(ranks), 0), body);
}

inline void run_ranks(int ranks, const std::function<void(RankGroup&)>& body) {
  run_ranks_on_file(ranks, [&body](RankGroup& rank_group, int) { body(rank_group); });
}

}  // namespace cclmark
