#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "device/host.hpp"
#include "lazy_device.hpp"
#include "measure/session.hpp"
#include "ranks.hpp"

using namespace cclmark;

namespace {

/// A library whose memory runs out on one rank, and whose registering would wait for all ranks.
class Scarce final : public Communicator {
 public:
  Scarce(bool has_memory, std::atomic<int>& registered)
      : has_memory_(has_memory), registered_(registered) {}

  std::unique_ptr<Call> bind(const Operation&, void*) override { throw UnsupportedError("none"); }
  std::string route(const Operation&) const override { return "none"; }
  void* allocate(Device& device, size_t bytes, MemoryKind) override {
    if (!has_memory_) throw OutOfMemoryError("nothing is left here");
    ++held;
    return device.allocate(bytes);
  }
  void release(Device& device, void* memory, MemoryKind) noexcept override {
    --held;
    device.release(memory);
  }
  std::string no_registration(Registration) const override { return ""; }
  void register_memory(void*, size_t, Registration) override { ++registered_; }

  int held = 0;

 private:
  bool has_memory_;
  std::atomic<int>& registered_;
};

/// Notes which operations are called, and does nothing.
class Noting final : public Communicator {
 public:
  std::unique_ptr<Call> bind(const Operation& operation, void*) override {
    struct Noted final : Call {
      Noted(std::string operation, std::string& calls)
          : operation_(std::move(operation)), calls_(calls) {}
      void enqueue(const void*, void*) override { calls_ += operation_ + " "; }
      std::string operation_;
      std::string& calls_;
    };
    return std::make_unique<Noted>(std::string(name(operation.collective)), calls);
  }
  std::string route(const Operation&) const override { return "none"; }

  std::string calls;
};

/// Refuses calls from a number on, and may have failed by then.
class Refusing final : public Communicator {
 public:
  Refusing(int accepted, bool broken) : accepted_(accepted), broken_(broken) {}

  std::unique_ptr<Call> bind(const Operation&, void*) override {
    struct Refused final : Call {
      explicit Refused(int accepted) : left(accepted) {}
      void enqueue(const void*, void*) override {
        if (left-- <= 0) throw RefusedError("AllReduce failed: invalid argument (code 4)");
      }
      int left;
    };
    return std::make_unique<Refused>(accepted_);
  }
  std::string route(const Operation&) const override { return "none"; }
  void begin_group() override {}
  void check() override {
    if (broken_) throw Error("the communicator has failed");
  }

 private:
  int accepted_;
  bool broken_;
};

/// Notes the length and the places of each call, relative to the first one, and groups.
class Dividing final : public Communicator {
 public:
  explicit Dividing(bool has_groups = true, int accepted = 1 << 20)
      : has_groups_(has_groups), left(accepted) {}

  std::unique_ptr<Call> bind(const Operation& operation, void*) override {
    struct Divided final : Call {
      Divided(size_t count, Dividing& owner) : count_(count), owner_(owner) {}
      void prepare(const void* send, void*) override { owner_.note("prepare", count_, send, send); }
      void enqueue(const void* send, void* receive) override {
        if (owner_.left-- <= 0) throw RefusedError("invalid argument");
        owner_.note("call", count_, send, receive);
      }
      size_t count_;
      Dividing& owner_;
    };
    ++bound;
    return std::make_unique<Divided>(operation.count, *this);
  }
  std::string route(const Operation&) const override { return "none"; }
  void begin_group() override {
    if (!has_groups_) Communicator::begin_group();
    calls += "( ";
  }
  void end_group() override { calls += ") "; }

  void note(const std::string& what, size_t count, const void* send, const void* receive) {
    if (what != noted) return;
    auto at = [](const void* place, const void*& first) {
      if (first == nullptr) first = place;
      return std::to_string(static_cast<const std::byte*>(place) -
                            static_cast<const std::byte*>(first));
    };
    calls += std::to_string(count) + "@" + at(send, first_sent) + "," +
             at(receive, first_received) + " ";
  }

  std::string noted = "call", calls;
  int bound = 0;

 private:
  bool has_groups_;
  int left;
  const void *first_sent = nullptr, *first_received = nullptr;
};

/// Captures graphs: their numbers of kernels that the engine launches itself, in the order in which
/// they are instantiated and launched.
class GraphDevice final : public LazyDevice {
 public:
  explicit GraphDevice(bool has_kernels) : LazyDevice(0, 1, -1), has_kernels_(has_kernels) {}
  void begin_capture(void*) override { kernels_ = 0; }
  void* end_capture(void*) override {
    made.push_back(kernels_);
    ++alive;
    return new size_t(made.size() - 1);
  }
  void launch_graph(void* graph, void*) override {
    launched.push_back(*static_cast<size_t*>(graph));
  }
  void destroy_graph(void* graph) noexcept override {
    --alive;
    delete static_cast<size_t*>(graph);
  }
  const Kernel& kernel(const char* name) override {
    if (std::string_view(name) != "cclmark_space") return LazyDevice::kernel(name);
    if (!has_kernels_) throw MissingError("no compiler");
    return reinterpret_cast<const Kernel&>(kernels_);
  }
  void launch_grid(const Kernel&, void*, const Grid&, void*) override { ++kernels_; }

  std::vector<size_t> made, launched;
  int alive = 0;

 private:
  bool has_kernels_;
  size_t kernels_ = 0;
};

Operation all_reduce() {
  Operation operation;
  operation.count = 16;
  return operation;
}

std::string times(size_t number, const std::string& words) {
  std::string result;
  for (size_t i = 0; i < number; ++i) result += words;
  return result;
}

}  // namespace

TEST_CASE("ranks meet in the library's barrier where they are to, right before what is timed") {
  run_ranks(2, [&](RankGroup& rank_group) {
    auto device = open_host_device(rank_group.rank());
    Noting communicator;
    OperationCounter counter;
    Session session(*device, rank_group, communicator, &counter);
    session.reserve(4096, 4096, {});
    session.prepare(all_reduce(), false, 1);
    auto calls = [&](const Batch& batch) {
      communicator.calls.clear();
      uint64_t before = counter.entered();
      session.run(batch);
      size_t entered = counter.entered() - before;
      CHECK(entered ==
            static_cast<size_t>(std::ranges::count(communicator.calls, ' ')));  // what a hang tells
      return communicator.calls;
    };
    using enum Timing;
    const std::string one = "all_reduce ", met = "barrier ";
    CHECK(calls({.timing = blocking, .iterations = 3}) == times(3, one));
    CHECK(calls({.timing = blocking, .iterations = 3, .library_barrier = true}) ==
          times(3, met + one));
    CHECK(calls({.timing = per_op, .iterations = 3, .library_barrier = true}) ==
          met + times(3, one));
    CHECK(calls({.timing = throughput, .iterations = 20}) == times(21, one));
    CHECK(calls({.timing = throughput, .iterations = 20, .library_barrier = true}) ==
          one + met + times(20, one));
  });
}

TEST_CASE("several graphs of the same operations have memory of the driver between them") {
  run_ranks(1, [&](RankGroup& rank_group) {
    GraphDevice device(true);
    Noting communicator;
    Session session(device, rank_group, communicator);
    CHECK(session.spaces_graphs());
    session.reserve(4096, 4096, {});
    session.prepare(all_reduce(), false, 1);
    auto batch_of = [](size_t graph) {
      return Batch{.timing = Timing::graph, .iterations = 20, .graph_launches = 2, .graph = graph};
    };
    for (size_t graph : {0, 1, 2, 1}) session.capture(batch_of(graph));
    CHECK(communicator.calls == times(3 * 20, "all_reduce "));
    REQUIRE(device.made.size() == 5);
    CHECK(device.made[0] == 0);
    CHECK(device.made[1] >= 200);
    CHECK(device.made[3] == device.made[1]);
    session.run(batch_of(2));
    session.run(batch_of(0));
    session.run(batch_of(2));
    // The first launch of each one uploads it.
    CHECK(device.launched == std::vector<size_t>{4, 4, 4, 0, 0, 0, 4, 4});
    session.prepare(all_reduce(), false, 1);
    CHECK(device.alive == 0);
  });
}

TEST_CASE("without kernels graphs are not placed apart") {
  run_ranks(1, [&](RankGroup& rank_group) {
    GraphDevice device(false);
    Noting communicator;
    CHECK(!Session(device, rank_group, communicator).spaces_graphs());
  });
}

TEST_CASE("only the refusal of an operation's first call means that it is not supported") {
  auto device = open_host_device(0);
  auto error_of = [&](int accepted, bool broken, const Batch& batch) -> std::string {
    std::string error = "none";
    run_ranks(1, [&](RankGroup& rank_group) {
      Refusing communicator(accepted, broken);
      Session session(*device, rank_group, communicator);
      session.reserve(4096, 4096, {});
      session.prepare(all_reduce(), false, 1);
      try {
        session.run(batch);
      } catch (const UnsupportedError& refused) {
        error = std::string("unsupported: ") + refused.what();
      } catch (const Error& failed) {
        error = std::string("failed: ") + failed.what();
      }
    });
    return error;
  };
  const std::string refusal = "AllReduce failed: invalid argument (code 4)";
  for (Timing timing : {Timing::throughput, Timing::blocking, Timing::per_op}) {
    const Batch three{.timing = timing, .iterations = 3};
    CHECK(error_of(3, false, three) == "none");
    CHECK(error_of(0, false, three) == "unsupported: " + refusal);
    CHECK(error_of(1, false, three) == "failed: " + refusal);
    CHECK(error_of(0, true, three) == "failed: the communicator has failed");
  }
  CHECK(error_of(0, false, {.iterations = 1, .group = 4}) == "unsupported: " + refusal);
}

TEST_CASE("pieces are calls over consecutive parts, which the library launches as one in a group") {
  run_ranks(2, [&](RankGroup& rank_group) {
    auto device = open_host_device(rank_group.rank());
    const Batch once{.timing = Timing::blocking, .iterations = 1};
    auto calls = [&](const Pieces& pieces, bool in_place = false, const char* noted = "call") {
      Dividing communicator;
      Session session(*device, rank_group, communicator);
      session.reserve(4096, 4096, {});
      session.prepare(all_reduce(), in_place, 1, pieces);
      communicator.noted = noted;
      session.run(once);
      return communicator.calls + std::to_string(communicator.bound);
    };
    CHECK(calls({}) == "16@0,0 1");
    CHECK(calls({.counts = {16}}) == "16@0,0 1");
    CHECK(calls({.counts = {4, 4, 4, 4}}) == "4@0,0 4@16,16 4@32,32 4@48,48 1");
    CHECK(calls({.counts = {1, 7, 8}}) == "1@0,0 7@4,4 8@32,32 3");
    CHECK(calls({.counts = {1, 7, 8}}, true) == "1@0,0 7@4,4 8@32,32 3");
    CHECK(calls({.counts = {8, 8}, .grouped = true}) == "( 8@0,0 8@32,32 ) 1");
    CHECK(calls({.counts = {8, 8}}, false, "prepare") == "8@0,0 8@32,32 1");
  });
}

TEST_CASE("an operation is one operation in any number of pieces") {
  run_ranks(1, [&](RankGroup& rank_group) {
    auto device = open_host_device(0);
    Dividing communicator;
    OperationCounter counter;
    Session session(*device, rank_group, communicator, &counter);
    session.reserve(4096, 4096, {});
    session.prepare(all_reduce(), false, 1, {.counts = {4, 4, 8}});
    uint64_t before = counter.entered();
    Samples samples = session.run({.timing = Timing::blocking, .iterations = 5});
    CHECK(samples.host_s.size() == 5);
    CHECK(counter.entered() - before == 5);
  });
}

TEST_CASE("pieces are refused where they are not the operation, and where there are no groups") {
  run_ranks(1, [&](RankGroup& rank_group) {
    auto device = open_host_device(0);
    auto error_of = [&](Dividing&& communicator, Operation operation, const Pieces& pieces) {
      Session session(*device, rank_group, communicator);
      session.reserve(4096, 4096, {});
      try {
        session.prepare(operation, false, 1, pieces);
        session.run({.timing = Timing::blocking, .iterations = 1});
      } catch (const UnsupportedError& refused) {
        return std::string("unsupported: ") + refused.what();
      } catch (const Error& failed) {
        return std::string("failed: ") + failed.what();
      }
      return std::string("none");
    };
    const Pieces halves{.counts = {8, 8}};
    const Pieces grouped{.counts = {8, 8}, .grouped = true};
    Operation gather = all_reduce();
    gather.collective = Collective::all_gather;
    CHECK(error_of(Dividing(), all_reduce(), halves) == "none");
    CHECK(error_of(Dividing(), gather, halves) ==
          "failed: all_gather: its pieces are not consecutive parts of the buffers");
    for (const std::vector<size_t>& counts : {std::vector<size_t>{8, 7}, {16, 0}, {17}}) {
      CHECK(error_of(Dividing(), all_reduce(), {.counts = counts}) ==
            "failed: the pieces do not add up to the operation, or one is empty");
    }
    CHECK(error_of(Dividing(false), all_reduce(), grouped) ==
          "unsupported: this library does not support groups of operations");
    CHECK(error_of(Dividing(true, 0), all_reduce(), halves) == "unsupported: invalid argument");
    // The first piece has been enqueued.
    CHECK(error_of(Dividing(true, 1), all_reduce(), halves) == "failed: invalid argument");
  });
}

TEST_CASE("operations that are waited for have events where they are asked for") {
  run_ranks(2, [&](RankGroup& rank_group) {
    auto device = open_host_device(rank_group.rank());
    Noting communicator;
    Session session(*device, rank_group, communicator);
    session.reserve(4096, 4096, {});
    session.prepare(all_reduce(), false, 1);
    Samples without = session.run({.timing = Timing::blocking, .iterations = 2});
    Samples with = session.run({.timing = Timing::blocking, .iterations = 2, .events = true});
    REQUIRE(with.device_s.size() == 4);
    for (size_t i = 0; i < 4; ++i) {
      CHECK(std::isnan(without.device_s[i]));
      CHECK(with.device_s[i] >= 0);
      CHECK(with.device_s[i] <= with.host_s[i]);
    }
  });
}

TEST_CASE("no rank registers its buffers when one rank could not have its own") {
  for (int poor : {-1, 0, 1}) {
    std::atomic<int> registered = 0, refused = 0;
    run_ranks(2, [&](RankGroup& rank_group) {
      auto device = open_host_device(rank_group.rank());
      Scarce communicator(rank_group.rank() != poor, registered);
      {
        Session session(*device, rank_group, communicator);
        try {
          session.reserve(4096, 4096, {Registration::symmetric});
        } catch (const OutOfMemoryError&) {
          ++refused;
        }
      }
      if (communicator.held != 0) throw Error("memory was not given back");
    });
    CHECK(refused == (poor < 0 ? 0 : 2));
    CHECK(registered == (poor < 0 ? 4 : 0));
  }
}

/// Notes whether memory is released before the work on the first stream, which is slow, is done.
class Watchful final : public LazyDevice {
 public:
  Watchful(int index, std::atomic<int>& early) : LazyDevice(index, 1, 0), early_(early) {}

  void* create_stream() override {
    void* stream = LazyDevice::create_stream();
    if (first_ == nullptr) first_ = stream;
    return stream;
  }
  void release(void* memory) noexcept override {
    if (first_ != nullptr && !idle(first_)) ++early_;
    LazyDevice::release(memory);
  }

 private:
  std::atomic<int>& early_;
  void* first_ = nullptr;
};

TEST_CASE("buffers are released after the work that uses them") {
  std::atomic<int> early = 0;
  run_ranks(2, [&](RankGroup& rank_group) {
    Watchful device(rank_group.rank(), early);
    Noting communicator;
    Session session(device, rank_group, communicator);
    session.reserve(4096, 4096, {});
    session.prepare(all_reduce(), false, 1);
    session.reserve(1 << 20, 1 << 20, {});
    session.prepare(all_reduce(), false, 1);
  });
  CHECK(early == 0);
}

TEST_CASE("a session lists its memory, by purpose and with what one operation uses") {
  run_ranks(2, [&](RankGroup& rank_group) {
    auto device = open_host_device(rank_group.rank());
    Noting communicator;
    Session session(*device, rank_group, communicator);
    auto find = [&](const std::string& purpose) {
      for (const MemoryBlock& block : session.memory_blocks()) {
        if (block.purpose == purpose) return block;
      }
      throw Error("there is no block for " + purpose);
    };
    session.reserve(4096, 8192, {});
    session.prepare(all_reduce(), false, 1);
    for (const char* purpose : {"input", "output"}) {
      MemoryBlock block = find(purpose);
      CHECK(block.used_bytes == 64);
      CHECK(block.bytes >= (block.purpose == "input" ? 4096u : 8192u));
      CHECK(block.place == MemoryPlace::shared_host);
      CHECK(find_host_allocation(block.address).base == block.address);
      CHECK(find_host_allocation(block.address).bytes == block.bytes);
      CHECK_FALSE(block.mapped);
      CHECK_FALSE(block.of_library);
    }
    CHECK(find("input").first_values.ends_with(" ..."));
    CHECK(find("output").first_values.ends_with(" ..."));
    CHECK(find("input").first_values != find("output").first_values);
    CHECK(find("result of the check").bytes == 16);
    CHECK(find("barriers and values of all ranks").mapped);

    session.prepare(all_reduce(), true, 1);
    CHECK(find("unused in place").used_bytes == 0);
    CHECK(find("unused in place").first_values.empty());
    CHECK(find("input and output").used_bytes == 64);
    Operation exchange = all_reduce();
    exchange.collective = Collective::alltoall;
    session.prepare(exchange, true, 1);
    CHECK(find("copy of the input").used_bytes == 128);
    CHECK(find("input and output").used_bytes == 128);
    CHECK_THROWS_AS(communicator.memory_statement(), UnsupportedError);
  });
}
