#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "ccl/communicator.hpp"
#include "device/host.hpp"
#include "lazy_device.hpp"
#include "measure/step_replay.hpp"
#include "ranks.hpp"
#include "shapes.hpp"

using namespace cclmark;

namespace {

StepCall call_of(size_t communicator, size_t stream, Collective collective, size_t count) {
  StepCall call;
  call.communicator = communicator;
  call.stream = stream;
  call.operation.collective = collective;
  call.operation.count = count;
  return call;
}

/// Lets `body` run on four ranks, each of which is in a communicator of all and in one of two.
template <typename Body>
void with_two_groups(Body body) {
  // One for each group: ranks are threads here, and the first rank of a group changes its library.
  auto of_four = open_ccl(shape_of("shm"), {});
  auto of_low = open_ccl(shape_of("shm"), {}), of_high = open_ccl(shape_of("shm"), {});
  std::vector<uint8_t> all = of_four->make_id(4), low = of_low->make_id(2),
                       high = of_high->make_id(2);
  run_ranks_on_file(4, [&](RankGroup& rank_group, int fd) {
    int rank = rank_group.rank();
    bool is_low = rank < 2;
    auto device = open_host_device(rank);
    auto of_all = of_four->join(*device, all, rank_group);
    std::vector<int> members = is_low ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
    auto pair = rank_group.subgroup(fd, members, is_low ? 4 : 6);
    pair->expect_within(60, "a test");
    auto of_pair = (is_low ? of_low : of_high)->join(*device, is_low ? low : high, *pair);
    std::vector<Membership> memberships{{of_all.get(), rank, 4}, {of_pair.get(), rank % 2, 2}};
    body(*device, rank_group, memberships);
    rank_group.barrier();
  });
}

size_t wrong_in(const std::vector<Checker::Count>& counts) {
  return static_cast<size_t>(
      std::ranges::count_if(counts, [](const Checker::Count& one) { return one.wrong > 0; }));
}

}  // namespace

TEST_CASE("a step of two groups and streams has right data and ordered times") {
  with_two_groups([](Device& device, RankGroup& rank_group, auto memberships) {
    std::vector<StepCall> calls{
        call_of(0, 0, Collective::all_reduce, 1000), call_of(1, 1, Collective::all_gather, 300),
        call_of(0, 0, Collective::reduce_scatter, 77), call_of(1, 1, Collective::all_reduce, 5000)};
    calls[1].operation.dtype = Dtype::bfloat16;
    StepReplay replay(device, rank_group, memberships, calls, 5);
    StepTimes times = replay.run(0);
    REQUIRE(times.begin_s.size() == 4);
    for (size_t i = 0; i < 4; ++i) {
      CHECK(times.begin_s[i] >= 0);
      CHECK(times.end_s[i] >= times.begin_s[i]);
      if (i > 0) CHECK(times.begin_s[i] >= times.end_s[i - 1]);  // the host works inside the call
    }
    CHECK(times.host_s >= times.enqueue_s);
    CHECK(wrong_in(replay.verify({})) == 0);
    CHECK(replay.buffer_bytes() > 0);
  });
}

TEST_CASE("a corrupted output of a step is found in its call") {
  with_two_groups([](Device& device, RankGroup& rank_group, auto memberships) {
    StepReplay replay(
        device, rank_group, memberships,
        {call_of(0, 0, Collective::all_reduce, 10), call_of(1, 0, Collective::all_reduce, 1000)},
        5);
    std::optional<size_t> corrupt;
    if (rank_group.rank() == 3) corrupt = 700;
    auto counts = replay.verify(corrupt);
    CHECK(counts[0].wrong == 0);
    CHECK(counts[1].wrong == (corrupt ? 1 : 0));
    if (corrupt) CHECK(counts[1].first_element == 700);
  });
}

TEST_CASE("gaps pass before a call, from the call before it or from the begin of the step") {
  with_two_groups([](Device& device, RankGroup& rank_group, auto memberships) {
    std::vector<StepCall> calls{call_of(0, 0, Collective::all_reduce, 10),
                                call_of(0, 0, Collective::all_reduce, 10),
                                call_of(0, 0, Collective::all_reduce, 10)};
    calls[1].gap = Gap::after_previous;
    calls[1].gap_s = 0.01;
    calls[2].gap = Gap::after_begin;
    calls[2].gap_s = 0.05;
    StepReplay replay(device, rank_group, memberships, calls, 5);
    StepTimes times = replay.run(0);
    CHECK(times.begin_s[1] - times.end_s[0] >= 0.01);
    CHECK(times.begin_s[2] >= 0.0499);
  });
}

TEST_CASE("messages have matrices of their rank only, with the rows of their senders") {
  with_two_groups([](Device& device, RankGroup& rank_group, auto memberships) {
    // shm requires all ranks in an alltoallv: each pair exchanges in the pair's communicator.
    StepCall call = call_of(1, 0, Collective::alltoallv, 0);
    call.operation.matrix = {0, 30, 40, 0};
    StepReplay replay(device, rank_group, memberships, {call}, 5);
    replay.run(0);
    CHECK(wrong_in(replay.verify({})) == 0);
  });
}

TEST_CASE("calls that do not fit the communicators are refused") {
  with_two_groups([](Device& device, RankGroup& rank_group, auto memberships) {
    CHECK_THROWS_AS(
        StepReplay(device, rank_group, memberships, {call_of(7, 0, Collective::all_reduce, 1)}, 5),
        Error);
    StepCall call = call_of(0, 0, Collective::alltoallv, 0);
    call.operation.matrix = {1, 2};
    CHECK_THROWS_AS(StepReplay(device, rank_group, memberships, {call}, 5), Error);
  });
}

TEST_CASE("a compute runs in the gaps of a step, but not while it is checked") {
  struct Counting final : Compute {
    explicit Counting(Device& device) : product(make_product(device, 64)) {}
    void enqueue(void* stream) override {
      product->enqueue(stream);
      ++enqueued;
    }
    double work() const override { return product->work(); }
    std::string implementation() const override { return product->implementation(); }
    void poison(void* stream) override { product->poison(stream); }
    ComputeFinding check(void* stream, const std::function<void()>& wait) override {
      return product->check(stream, wait);
    }
    std::unique_ptr<Compute> product;
    size_t enqueued = 0;
  };
  with_two_groups([](Device& device, RankGroup& rank_group, auto memberships) {
    std::vector<StepCall> calls{call_of(0, 0, Collective::all_reduce, 1000),
                                call_of(0, 0, Collective::all_reduce, 1000)};
    calls[1].gap = Gap::after_begin;
    calls[1].gap_s = 0.02;
    Counting compute(device);
    StepReplay step(device, rank_group, memberships, calls, 1, nullptr, &compute);
    CHECK(wrong_in(step.verify({})) == 0);
    CHECK(compute.enqueued == 0);
    StepTimes times = step.run(0.0);
    CHECK(compute.enqueued > 0);
    CHECK(times.begin_s[1] >=
          0.019);  // after the event of the begin, which is recorded a moment later
  });
}

TEST_CASE("a compute goes on while calls are still enqueued") {
  struct Slow final : LazyDevice {  // so that an operation of the compute counts as long
    Slow() : LazyDevice(0, 1, -1) {}
    double elapsed_s(void*, void*) override { return 0.06; }
  };
  constexpr unsigned kLaunchUs = 100'000;
  struct Empty final : Compute {
    void enqueue(void* stream) override {
      usleep(kLaunchUs);
      used = static_cast<LazyStream*>(stream);
      used->push([] {});
      ++enqueued;
    }
    double work() const override { return 0; }
    std::string implementation() const override { return ""; }
    void poison(void*) override {}
    ComputeFinding check(void*, const std::function<void()>&) override { return {}; }
    LazyStream* used = nullptr;
    size_t enqueued = 0;
  };
  /// A library whose calls return when the compute is complete, as with a full queue.
  struct Full final : Communicator {
    struct Waiting final : Call {
      explicit Waiting(Full& full) : full_(full) {}
      void enqueue(const void*, void*) override {
        while (!full_.compute.used->idle()) usleep(20);
        full_.seen.push_back(full_.compute.enqueued);
      }
      Full& full_;
    };
    explicit Full(Empty& compute) : compute(compute) {}
    std::unique_ptr<Call> bind(const Operation&, void*) override {
      return std::make_unique<Waiting>(*this);
    }
    std::string route(const Operation&) const override { return "native"; }
    Empty& compute;
    std::vector<size_t> seen;
  };
  Slow device;
  Empty compute;
  Full communicator(compute);
  run_ranks(1, [&](RankGroup& rank_group) {
    std::vector<StepCall> calls(3, call_of(0, 0, Collective::all_reduce, 16));
    StepReplay step(device, rank_group, {{&communicator, 0, 1}}, calls, 1, nullptr, &compute);
    StepTimes times = step.run(0.0);
    CHECK(times.enqueue_s < times.host_s / 2);
    CHECK(times.host_s > 3e-6 * kLaunchUs);
  });
  REQUIRE(communicator.seen.size() == 3);
  CHECK(communicator.seen[0] < communicator.seen[1]);
  CHECK(communicator.seen[1] < communicator.seen[2]);
}
