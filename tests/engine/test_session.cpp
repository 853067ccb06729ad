#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <utility>

#include "device/host.hpp"
#include "measure/session.hpp"
#include "ranks.hpp"

using namespace cclmark;

namespace {

/// A library whose memory runs out on one rank, and whose registering would wait for all ranks.
class Scarce final : public Communicator {
 public:
  Scarce(Device& device, bool has_memory, std::atomic<int>& registered)
      : device_(device), has_memory_(has_memory), registered_(registered) {}

  std::unique_ptr<Call> bind(const Operation&, void*) override { throw UnsupportedError("none"); }
  std::string route(const Operation&) const override { return "none"; }
  void* allocate(size_t bytes, Registration) override {
    if (!has_memory_) throw OutOfMemoryError("nothing is left here");
    ++held;
    return device_.allocate(bytes);
  }
  void register_memory(void*, size_t, Registration) override { ++registered_; }
  void release(void* memory, Registration) noexcept override {
    --held;
    device_.release(memory);
  }

  int held = 0;

 private:
  Device& device_;
  bool has_memory_;
  std::atomic<int>& registered_;
};

/// Notes which operations are called, and does nothing.
class Noting final : public Communicator {
 public:
  explicit Noting(Device& device) : device_(device) {}

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
  void* allocate(size_t bytes, Registration) override { return device_.allocate(bytes); }
  void register_memory(void*, size_t, Registration) override {}
  void release(void* memory, Registration) noexcept override { device_.release(memory); }

  std::string calls;

 private:
  Device& device_;
};

/// Refuses calls from a number on, and may have failed by then.
class Refusing final : public Communicator {
 public:
  Refusing(Device& device, int accepted, bool broken)
      : device_(device), accepted_(accepted), broken_(broken) {}

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
  void* allocate(size_t bytes, Registration) override { return device_.allocate(bytes); }
  void register_memory(void*, size_t, Registration) override {}
  void release(void* memory, Registration) noexcept override { device_.release(memory); }
  void begin_group() override {}
  void check() override {
    if (broken_) throw Error("the communicator has failed");
  }

 private:
  Device& device_;
  int accepted_;
  bool broken_;
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
    Noting communicator(*device);
    OperationCounter counter;
    Session session(*device, rank_group, communicator, &counter);
    session.reserve(4096, 4096, Registration::none);
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

TEST_CASE("only the refusal of an operation's first call means that it is not supported") {
  auto device = open_host_device(0);
  auto error_of = [&](int accepted, bool broken, const Batch& batch) -> std::string {
    std::string error = "none";
    run_ranks(1, [&](RankGroup& rank_group) {
      Refusing communicator(*device, accepted, broken);
      Session session(*device, rank_group, communicator);
      session.reserve(4096, 4096, Registration::none);
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

TEST_CASE("operations that are waited for have events where they are asked for") {
  run_ranks(2, [&](RankGroup& rank_group) {
    auto device = open_host_device(rank_group.rank());
    Noting communicator(*device);
    Session session(*device, rank_group, communicator);
    session.reserve(4096, 4096, Registration::none);
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
      Scarce communicator(*device, rank_group.rank() != poor, registered);
      {
        Session session(*device, rank_group, communicator);
        try {
          session.reserve(4096, 4096, Registration::symmetric);
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

TEST_CASE("a session lists its memory, by purpose and with what one operation uses") {
  run_ranks(2, [&](RankGroup& rank_group) {
    auto device = open_host_device(rank_group.rank());
    Noting communicator(*device);
    Session session(*device, rank_group, communicator);
    auto find = [&](const std::string& purpose) {
      for (const MemoryBlock& block : session.memory_blocks()) {
        if (block.purpose == purpose) return block;
      }
      throw Error("there is no block for " + purpose);
    };
    session.reserve(4096, 8192, Registration::none);
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
