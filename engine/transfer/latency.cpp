// The two latencies of a single access: see docs/methodology.md.

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <numeric>
#include <random>

#include "core/clock.hpp"
#include "transfer/kernel_arguments.hpp"
#include "transfer/transfers.hpp"

namespace cclmark {
namespace {

constexpr double kNever = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kChainBytes = size_t{2} << 20;
constexpr size_t kChainStride = 128;  // a cache line: no load fetches the data of the next
constexpr size_t kMailOffset = kChainBytes;
constexpr unsigned long long kMailLimitNs = 2'000'000'000;

}  // namespace

/// Seconds between the beginning and the end of lane 0; NaN if the lane misses the deadline.
double Transfers::elapsed_of(Station& runner, const Deadline& deadline) {
  if (!ends_before(runner, runner.lanes[0], deadline)) return kNever;
  Lane& lane = *runner.lanes[0];
  return runner.device.elapsed_s(lane.begin.get(), lane.end.get());
}

double Transfers::chase(int reader, int owner, size_t accesses, double limit_s) {
  prepare({{Flow{owner, reader, reader}}, Engine::cache_copy, 0});
  std::vector<double> per_access_s{kNever};
  if (exchange_.owns(reader)) {
    Station& runner = station(reader);
    runner.device.activate();
    std::byte* chain = exchange_.scratch(reader, owner);
    std::vector<std::byte*> links(kChainBytes / sizeof(std::byte*), chain);
    std::vector<size_t> order(kChainBytes / kChainStride);
    std::iota(order.begin(), order.end(), size_t{0});
    // Processors of hosts prefetch sequential cache lines; devices do not.
    if (runner.device.synchronous()) std::shuffle(order.begin(), order.end(), std::mt19937(seed_));
    for (size_t i = 0; i < order.size(); ++i) {
      size_t next = order[(i + 1) % order.size()];
      links[order[i] * kChainStride / sizeof(std::byte*)] = chain + next * kChainStride;
    }
    runner.device.copy_from_host(chain, links.data(), kChainBytes);
    const Kernel& kernel = runner.device.kernel("cclmark_chase");
    auto blocks = static_cast<unsigned>(std::max(1, runner.device.info().multiprocessors));
    void* stream = runner.lanes[0]->stream.get();
    ChaseArguments arguments{reinterpret_cast<const unsigned char*>(chain),
                             static_cast<unsigned>(accesses), 0,
                             reinterpret_cast<unsigned long long*>(words_ + kFailureWord + 1)};
    runner.device.launch_grid(kernel, &arguments, {blocks, 1, 0}, stream);  // fills the TLBs
    runner.device.record(runner.lanes[0]->begin.get(), stream);
    for (arguments.block = 0; arguments.block < blocks; ++arguments.block) {
      runner.device.launch_grid(kernel, &arguments, {blocks, 1, 0}, stream);
    }
    runner.device.record(runner.lanes[0]->end.get(), stream);
    per_access_s[0] =
        elapsed_of(runner, Deadline(limit_s)) / static_cast<double>(blocks * accesses);
  }
  return share(per_access_s)[0];
}

double Transfers::ping_pong(int a, int b, size_t rounds, double limit_s) {
  together([&] {
    for (auto& own : stations_) {
      own->device.activate();
      kernel_of(own->device, "cclmark_ping_pong");
    }
  });
  prepare({{Flow{a, b, a}, Flow{b, a, b}}, Engine::cache_copy, 0});
  std::vector<double> one_way_s{kNever};
  words_[kFailureWord] = 0;
  gate_.close(limit_s);
  bool in_call = stations_[0]->device.synchronous();
  if (in_call) rank_group_.barrier();
  for (auto [own, other] : {std::pair(a, b), std::pair(b, a)}) {
    if (!exchange_.owns(own)) continue;
    Station& runner = station(own);
    runner.device.activate();
    void* stream = runner.lanes[0]->stream.get();
    if (!in_call && gate_.holds()) gate_.hold(runner.device, stream);
    runner.device.record(runner.lanes[0]->begin.get(), stream);
    PingPongArguments arguments{
        reinterpret_cast<volatile unsigned*>(exchange_.scratch(own, own) + kMailOffset),
        reinterpret_cast<volatile unsigned*>(exchange_.scratch(own, other) + kMailOffset),
        mail_value_ + 1,
        static_cast<unsigned>(rounds),
        own == a ? 1u : 0u,
        kMailLimitNs,
        words_ + kFailureWord};
    runner.device.launch_grid(runner.device.kernel("cclmark_ping_pong"), &arguments, {}, stream);
    runner.device.record(runner.lanes[0]->end.get(), stream);
  }
  if (!in_call) rank_group_.barrier();
  gate_.open();
  Deadline deadline(limit_s);
  for (int own : {b, a}) {
    if (!exchange_.owns(own)) continue;
    double elapsed_s = elapsed_of(station(own), deadline);
    if (own == a && words_[kFailureWord] == 0) {
      one_way_s[0] = elapsed_s / static_cast<double>(2 * rounds);
    }
  }
  mail_value_ += static_cast<uint32_t>(rounds);
  return share(one_way_s)[0];
}

}  // namespace cclmark
