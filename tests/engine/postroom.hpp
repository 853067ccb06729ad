#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace cclmark {

/// Hands values between "hosts" that are threads here: what the value exchange does by messages.
class Postroom {
 public:
  explicit Postroom(std::vector<int> hosts) : hosts_(std::move(hosts)) {}

  std::vector<double> exchange(int host, const std::vector<int>& members,
                               const std::vector<double>& own) {
    std::unique_lock lock(mutex_);
    auto away = static_cast<size_t>(std::ranges::count_if(
        members, [&](int member) { return hosts_[static_cast<size_t>(member)] != host; }));
    size_t count = own.size() / (members.size() - away);
    Round& round = rounds_[{members, turns_[{members, host}]++}];
    for (size_t place = 0, next = 0; place < members.size(); ++place) {
      round.values.resize(members.size() * count);
      if (hosts_[static_cast<size_t>(members[place])] != host) continue;
      for (size_t i = 0; i < count; ++i) round.values[place * count + i] = own[next++];
      ++round.come;
    }
    arrived_.notify_all();
    if (!arrived_.wait_for(lock, patience, [&] { return round.come == members.size(); })) {
      throw Error("not all hosts have come");
    }
    return round.values;
  }

  std::chrono::seconds patience{300};

 private:
  struct Round {
    size_t come = 0;
    std::vector<double> values;
  };
  std::vector<int> hosts_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<std::vector<int>, int>, int> turns_;
  std::map<std::pair<std::vector<int>, int>, Round> rounds_;
};

}  // namespace cclmark
