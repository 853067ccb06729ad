#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ccl/communicator.hpp"
#include "core/clock.hpp"
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

constexpr double kUs = 1e-6;

/// A device with simulated times: each stream has the time at which its work so far ends. Work
/// begins when it is enqueued, by the host's clock, or after the work before it. The host's clock
/// is simulated, too, so that times do not depend on the load of the machine: it advances in
/// `keep_host`, and in waits for streams.
class TimedDevice final : public LazyDevice {
 public:
  static constexpr double kLaunchS = 3 * kUs, kCrossingS = 2 * kUs;

  struct Launch {
    double begin_s;
    unsigned blocks;
    double time_s;
  };

  TimedDevice() : LazyDevice(0, 1, -1) {}
  void* allocate(size_t bytes) override {
    if (bytes > most_bytes) throw OutOfMemoryError("the memory of this device");
    ++buffers;
    return LazyDevice::allocate(bytes);
  }
  void release(void* memory) noexcept override {
    --buffers;
    LazyDevice::release(memory);
  }
  void* create_stream() override { return new double(0); }
  void destroy_stream(void* stream) noexcept override { delete static_cast<double*>(stream); }
  bool idle(void* stream) override {
    host_s_ = std::max(host_s_, *static_cast<double*>(stream));
    return true;
  }
  void* create_event() override { return new double(0); }
  void destroy_event(void* event) noexcept override { delete static_cast<double*>(event); }
  void record(void* event, void* stream) override {
    *static_cast<double*>(event) = begin_of(stream);
  }
  void wait_for_event(void* event, void* stream) override {
    double& end_s = *static_cast<double*>(stream);
    end_s = std::max(end_s, *static_cast<double*>(event) + kCrossingS);
  }
  double elapsed_s(void* begin, void* end) override {
    return *static_cast<double*>(end) - *static_cast<double*>(begin);
  }
  const Kernel& kernel(const char* name) override {
    if (std::string_view(name) == "cclmark_pause") return kernel_at(kPause);
    if (std::string_view(name) == "cclmark_traffic") return kernel_at(kTraffic);
    return host_->kernel(name);
  }
  void launch(const Kernel& kernel, void* arguments, size_t items, void*) override {
    host_->launch(kernel, arguments, items, nullptr);
  }
  void fill_bytes(void* memory, int byte, size_t bytes, void*) override {
    std::memset(memory, byte, bytes);
  }
  void copy_async(void* to, const void* from, size_t bytes, void*) override {
    std::memmove(to, from, bytes);
  }
  void launch_grid(const Kernel& kernel, void* arguments, const Grid& grid, void* stream) override {
    if (is_delayed) host_s_ += static_cast<double>(now_ns() - enqueued_ns_) * 1e-9;
    const double begin_s = begin_of(stream) + kLaunchS;
    if (&kernel == &kernel_at(kTraffic)) {
      auto* of_traffic = static_cast<unsigned long long*>(arguments);
      const double time_s = static_cast<double>(of_traffic[2]) * 1e-9;
      traffic.push_back({begin_s, grid.blocks, time_s});
      set_end(stream, begin_s + time_s);
      return;
    }
    REQUIRE(&kernel == &kernel_at(kPause));
    struct Pause {
      unsigned long long* origin;
      unsigned long long wait_ns;
      unsigned mode;
    };
    const Pause& pause = *static_cast<Pause*>(arguments);
    if (pause.mode == 1) *pause.origin = static_cast<unsigned long long>(begin_s * 1e9);
    enqueued_ns_ = now_ns();
    double from_s = begin_s;
    if (pause.mode == 0 && pause.origin != nullptr) {
      from_s = static_cast<double>(*pause.origin) * 1e-9;
    }
    double time_s = static_cast<double>(pause.wait_ns) * 1e-9;
    set_end(stream, std::max(begin_s, pause.mode == 1 ? begin_s : from_s + time_s));
  }
  double begin_of(void* stream) const { return std::max(host_s_, *static_cast<double*>(stream)); }
  static void set_end(void* stream, double end_s) { *static_cast<double*>(stream) = end_s; }
  /// Keeps the host for some time, of both clocks: a step is enqueued by the real one, in at least
  /// this time.
  void keep_host(unsigned time_us) {
    if (time_us > 0) usleep(time_us);
    host_s_ += time_us * kUs;
  }

  std::vector<Launch> traffic;
  size_t buffers = 0;
  size_t most_bytes = SIZE_MAX;  ///< of a buffer
  /// The host's clock also advances by the real time before each launch, which is at least that of
  /// a delay.
  bool is_delayed = false;

 private:
  double host_s_ = 0;
  int64_t enqueued_ns_ = now_ns();
  // The places of which stand for the kernels.
  inline static const char kPause = 0, kTraffic = 0;
  static const Kernel& kernel_at(const char& place) {
    return reinterpret_cast<const Kernel&>(place);
  }
  std::unique_ptr<Device> host_ = open_host_device(0);
};

/// Calls of such devices, each as long as its count is in microseconds. They end together on all
/// ranks, and keep the host for `host_us`.
class TimedCommunicator final : public Communicator {
 public:
  TimedCommunicator(TimedDevice& device, RankGroup& rank_group, unsigned host_us = 0)
      : device_(device), rank_group_(rank_group), host_us_(host_us) {}
  std::unique_ptr<Call> bind(const Operation& operation, void* stream) override {
    return std::make_unique<TimedCall>(*this, operation, stream);
  }
  std::string route(const Operation&) const override { return "native"; }

 private:
  class TimedCall final : public Call {
   public:
    TimedCall(TimedCommunicator& owner, const Operation& operation, void* stream)
        : owner_(owner), time_s_(static_cast<double>(operation.count) * kUs), stream_(stream) {}
    void enqueue(const void*, void*) override {
      owner_.device_.keep_host(owner_.host_us_);
      const double own_s = owner_.device_.begin_of(stream_) + TimedDevice::kLaunchS;
      const double last_s = std::ranges::max(owner_.rank_group_.gather(std::span(&own_s, 1)));
      TimedDevice::set_end(stream_, last_s + time_s_);
    }

   private:
    TimedCommunicator& owner_;
    double time_s_;
    void* stream_;
  };

  TimedDevice& device_;
  RankGroup& rank_group_;
  unsigned host_us_;
};

bool is_about(double value_s, double expected_us) {
  return std::abs(value_s - expected_us * kUs) < 0.1 * kUs;
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

TEST_CASE("a device begins a step when the host has enqueued it, so that calls follow each other") {
  run_ranks(1, [](RankGroup& rank_group) {
    TimedDevice device;
    TimedCommunicator communicator(device, rank_group, 2000);
    std::vector<StepCall> calls(3, call_of(0, 0, Collective::all_reduce, 50));
    StepReplay step(device, rank_group, {{&communicator, 0, 1}}, calls, 1);
    step.run(0);  // in which the time of the host is measured
    StepTimes times = step.run(0);
    CHECK(times.enqueue_s > 6e-3);
    for (size_t i = 0; i < calls.size(); ++i) {
      CHECK(is_about(times.end_s[i] - times.begin_s[i], 50));
      if (i > 0) CHECK(times.begin_s[i] - times.end_s[i - 1] < 10 * kUs);
    }
  });
}

TEST_CASE("devices begin a step together, also if a host is late") {
  run_ranks(2, [](RankGroup& rank_group) {
    /// The host of rank 1 is late whenever it begins.
    TimedDevice device;
    TimedCommunicator communicator(device, rank_group, rank_group.rank() == 1 ? 3000 : 0);
    std::vector<StepCall> calls(2, call_of(0, 0, Collective::all_reduce, 50));
    calls[1].gap = Gap::after_previous;
    calls[1].gap_s = 100 * kUs;
    StepReplay step(device, rank_group, {{&communicator, rank_group.rank(), 2}}, calls, 1);
    step.run(0);
    StepTimes times = step.run(0);
    for (size_t i = 0; i < calls.size(); ++i) {
      CHECK(is_about(times.end_s[i] - times.begin_s[i], 50));
    }
    device.is_delayed = rank_group.rank() == 1;
    times = step.run(device.is_delayed ? 1e-3 : 0);  // a fault: one rank begins later
    const double first_s = times.end_s[0] - times.begin_s[0];
    if (rank_group.rank() == 0) CHECK(first_s > 0.9e-3);
  });
}

TEST_CASE("gaps and calls are as long as kernels see them, without the time of launches") {
  run_ranks(1, [](RankGroup& rank_group) {
    TimedDevice device;
    TimedCommunicator communicator(device, rank_group);
    std::vector<StepCall> calls{
        call_of(0, 0, Collective::all_reduce, 50), call_of(0, 0, Collective::all_reduce, 20),
        call_of(0, 1, Collective::all_reduce, 30), call_of(0, 0, Collective::all_reduce, 10),
        call_of(0, 0, Collective::all_reduce, 10)};
    calls[1].gap = calls[2].gap = calls[3].gap = Gap::after_previous;
    calls[1].gap_s = 100 * kUs;
    calls[2].gap_s = 40 * kUs;
    calls[2].after = 1;
    calls[3].gap_s = 1 * kUs;  // shorter than a launch
    calls[4].gap = Gap::after_begin;
    calls[4].gap_s = 700 * kUs;
    StepReplay step(device, rank_group, {{&communicator, 0, 1}}, calls, 1);
    StepTimes times = step.run(0);
    const std::vector<double> expected_us{50, 20, 30, 10, 10};
    for (size_t i = 0; i < calls.size(); ++i) {
      CAPTURE(i);
      CHECK(is_about(times.end_s[i] - times.begin_s[i], expected_us[i]));
    }
    CHECK(is_about(times.begin_s[1] - times.end_s[0], 100));
    CHECK(is_about(times.begin_s[2] - times.end_s[1], 40));
    CHECK(times.begin_s[3] - times.end_s[2] < 10 * kUs);
    CHECK(std::abs(times.begin_s[4] - 700 * kUs) < 5 * kUs);
    const double first_s = times.begin_s[0];
    CHECK_THROWS_AS(step.set_later({0}), Error);
    CHECK_THROWS_AS(step.set_later({0, 0, 0, 0, std::nan("")}), Error);
    step.set_later({30 * kUs, 10 * kUs, -25 * kUs, 0, 0});
    times = step.run(0);
    CHECK(is_about(times.begin_s[0] - first_s, 30 + TimedDevice::kLaunchS / kUs));
    CHECK(is_about(times.begin_s[1] - times.end_s[0], 110));
    CHECK(is_about(times.begin_s[2] - times.end_s[1], 15));
  });
}

TEST_CASE("memory traffic begins with its call, and only with those that have some") {
  run_ranks(1, [](RankGroup& rank_group) {
    TimedDevice device;
    TimedCommunicator communicator(device, rank_group);
    std::vector<StepCall> calls(3, call_of(0, 0, Collective::all_reduce, 50));
    StepReplay step(device, rank_group, {{&communicator, 0, 1}}, calls, 1);
    CHECK(step.most_traffic_blocks() > 0);
    CHECK_THROWS_AS(step.set_traffic({{1, 1e-5}}), Error);
    CHECK_THROWS_AS(step.set_traffic({{1, -1.0}, {}, {}}), Error);
    const size_t before = device.buffers;
    device.most_bytes = 1 << 16;
    CHECK_THROWS_AS(step.set_traffic({{1, 1e-5}, {}, {}}), OutOfMemoryError);
    step.run(0);
    CHECK(device.traffic.empty());
    CHECK(device.buffers == before);
    device.most_bytes = SIZE_MAX;
    step.set_traffic({{0, 1e-5}, {1, 40 * kUs}, {100000, 30 * kUs}});
    device.traffic.clear();
    step.run(0);
    REQUIRE(device.traffic.size() == 2);
    CHECK(device.traffic[0].blocks == 1);
    CHECK(device.traffic[1].blocks == step.most_traffic_blocks());
    CHECK(is_about(device.traffic[0].time_s, 40));
    const double apart_s = device.traffic[1].begin_s - device.traffic[0].begin_s;
    CHECK(is_about(apart_s, 53));  // a call and its launch
    device.traffic.clear();
    step.verify({});
    CHECK(device.traffic.empty());
    const size_t with_traffic = device.buffers;
    step.set_traffic({{}, {}, {}});
    CHECK(device.buffers < with_traffic);
    step.run(0);
    CHECK(device.traffic.empty());
  });
}
