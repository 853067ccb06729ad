#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <iostream>

#include "core/clock.hpp"
#include "core/descriptors.hpp"
#include "lazy_device.hpp"
#include "ranks.hpp"
#include "transfer/transfers.hpp"

using namespace cclmark;

namespace {

/// Lets `body` run on `ranks` ranks, each with one host device, after room was made.
template <typename Body>
void with_transfers(int ranks, size_t bytes, size_t landings, Body body) {
  run_ranks(ranks, [&](RankGroup& rank_group) {
    auto device = open_host_device(rank_group.rank());
    Transfers transfers({device.get()}, rank_group, 7);
    transfers.reserve(bytes, landings);
    body(rank_group, transfers);
    rank_group.barrier();
  });
}

void expect_right(const std::vector<Finding>& findings, size_t flows) {
  if (findings.size() != flows) throw Error("not one finding per flow");
  for (const Finding& finding : findings) {
    if (finding.wrong > 0) {
      throw Error("wrong data at element " + std::to_string(finding.first_element));
    }
  }
}

Transfer one_way(int from, int to, bool write, Engine engine, size_t bytes, size_t offset = 0) {
  Transfer transfer;
  transfer.flows = {Flow{from, to, write ? from : to}};
  transfer.engine = engine;
  transfer.bytes = bytes;
  transfer.offset_bytes = offset;
  transfer.one_launch = true;
  return transfer;
}

constexpr Engine kEngines[] = {Engine::copy_engine, Engine::cache_copy, Engine::nc_copy,
                               Engine::bulk_copy};

}  // namespace

TEST_CASE("every engine moves every size from any offset, written and read") {
  with_transfers(3, size_t{1} << 20, 1, [](RankGroup&, Transfers& transfers) {
    for (Engine engine : kEngines) {
      for (size_t bytes : {size_t{4}, size_t{16}, size_t{20}, size_t{4092}, size_t{700000}}) {
        for (size_t offset : {size_t{0}, size_t{4}, size_t{16}, size_t{8188}}) {
          for (bool write : {true, false}) {
            transfers.prepare(one_way(2, 0, write, engine, bytes, offset));
            FlowTimes times = transfers.run(3, 10);
            if (times.timed_out[0] || !(times.device_s[0] >= 0)) throw Error("no time");
            expect_right(transfers.verify({}, 0), 1);
          }
        }
      }
    }
  });
}

TEST_CASE("nothing is written beside the place where data lands") {
  with_transfers(3, 65536, 1, [](RankGroup&, Transfers& transfers) {
    for (Engine engine : kEngines) {
      for (size_t bytes : {size_t{4}, size_t{1004}, size_t{16384}}) {
        Transfer whole = one_way(0, 1, true, Engine::copy_engine, 65536);
        transfers.prepare(whole);
        transfers.run(1, 10);
        transfers.prepare(one_way(2, 1, true, engine, bytes, 8188));
        transfers.run(2, 10);
        // What of the first transfer is gone is what the second one overwrote.
        transfers.prepare(whole);
        Finding gone = transfers.verify({}, 0)[0];
        if (gone.wrong > bytes / 4) throw Error("more was overwritten than was copied");
        if (gone.wrong > 0 && gone.first_element < 8188 / 4) throw Error("overwritten before it");
      }
    }
  });
}

TEST_CASE("traced copies of the host follow each other on the rank that copies") {
  with_transfers(2, 65536, 1, [](RankGroup& rank_group, Transfers& transfers) {
    for (bool write : {true, false}) {
      transfers.prepare(one_way(0, 1, write, Engine::copy_engine, 65536));
      int64_t before_ns = now_ns();
      TracedCopies traced = transfers.trace(5, 10);
      const TracedFlow& flow = traced.flows.at(0);
      if (traced.timed_out != std::vector<bool>{false} || traced.gate_ns != 0) throw Error("late");
      if (!flow.device_end_s.empty()) throw Error("events of a device whose calls copy");
      bool runs_here = (rank_group.rank() == 0) == write;
      if (flow.call_begin_ns.size() != (runs_here ? 5 : 0)) throw Error("not one time per copy");
      for (size_t i = 0; i < flow.call_begin_ns.size(); ++i) {
        if (flow.call_begin_ns[i] < before_ns) throw Error("out of order");
        before_ns = flow.call_end_ns[i];
        if (before_ns < flow.call_begin_ns[i]) throw Error("a call ends before it begins");
      }
      if (traced.complete_ns < before_ns) throw Error("complete before the last copy");
      expect_right(transfers.verify({}, 0), 1);
    }
  });
}

TEST_CASE("copies that are enqueued wait behind the gate, and have events") {
  run_ranks(1, [](RankGroup& rank_group) {
    LazyDevice first(0, 1, -1), second(1, 2, -1);
    Transfers transfers({&first, &second}, rank_group, 7);
    transfers.reserve(65536, 1);
    Transfer both = one_way(0, 1, true, Engine::copy_engine, 65536);
    both.flows.push_back(Flow{1, 0, 1});
    transfers.prepare(both);
    TracedCopies traced = transfers.trace(3, 10);
    expect_right(transfers.verify({}, 0), 2);
    for (const TracedFlow& flow : traced.flows) {
      if (flow.call_end_ns.size() != 3 || flow.device_end_s.size() != 3) throw Error("times");
      if (flow.call_end_ns.back() > traced.gate_ns) throw Error("the gate opened before the end");
      if (flow.reference.before_ns == 0 || flow.reference.after_ns < flow.reference.before_ns) {
        throw Error("no reference");
      }
    }
    if (traced.complete_ns < traced.gate_ns) throw Error("complete before the gate opened");
  });
}

namespace {

/// Streams that cannot wait for memory; with `runs_in_call` their host functions hold nothing.
class Unheld : public LazyDevice {
 public:
  Unheld(int index, bool runs_in_call) : LazyDevice(index, 3, -1), runs_in_call_(runs_in_call) {}
  void wait_for_flag(const uint32_t*, uint32_t, void*) override {
    throw UnsupportedError("no waits for memory");
  }
  void call_host(void (*function)(void*), void* argument, void* stream) override {
    if (runs_in_call_) return function(argument);
    LazyDevice::call_host(function, argument, stream);
  }

 private:
  bool runs_in_call_;
};

}  // namespace

TEST_CASE("streams that cannot wait for memory are held by host functions, or not at all") {
  for (bool in_call : {false, true}) {
    run_ranks(1, [in_call](RankGroup& rank_group) {
      Unheld first(0, false), second(1, in_call);
      Transfers transfers({&first, &second}, rank_group, 7);
      transfers.choose_gate(GateKind::automatic);
      if (transfers.gate() != (in_call ? GateKind::events : GateKind::host_function)) {
        throw Error("another gate than that which works on both devices");
      }
      bool says = transfers.gate_reason().find("no waits for memory") == 0;
      if (!says) throw Error("no reason: " + transfers.gate_reason());
      transfers.reserve(65536, 1);
      Transfer both = one_way(0, 1, true, Engine::copy_engine, 65536);
      both.flows.push_back(Flow{1, 0, 1});
      transfers.prepare(both);
      FlowTimes times = transfers.run(5, 10);
      expect_right(transfers.verify({}, 0), 2);
      for (size_t flow : {0, 1}) {
        double launch_s = times.launch_s[flow];
        bool fits = in_call ? launch_s >= 0 && launch_s <= times.device_s[flow] : launch_s == 0;
        if (!fits) throw Error("launches take " + std::to_string(launch_s) + " s of a copy");
      }
      CHECK_THROWS_AS(transfers.choose_gate(GateKind::stream_wait), UnsupportedError);
    });
  }
}

TEST_CASE("what is not copied is noticed, although it was copied before") {
  with_transfers(2, 65536, 1, [](RankGroup&, Transfers& transfers) {
    transfers.prepare(one_way(0, 1, true, Engine::copy_engine, 65536));
    transfers.run(2, 10);
    expect_right(transfers.verify({}, 0), 1);
    transfers.run(0, 10);
    if (transfers.verify({}, 0)[0].wrong != 65536 / 4) throw Error("missing data passed the check");
  });
}

TEST_CASE("a flipped element is found at its index, with both values") {
  with_transfers(2, 65536, 1, [](RankGroup&, Transfers& transfers) {
    transfers.prepare(one_way(1, 0, false, Engine::nc_copy, 4096, 512));
    transfers.run(1, 10);
    Finding found = transfers.verify(77, 0)[0];
    if (found.wrong != 1 || found.first_element != 77) throw Error("not found where it is");
    if (found.expected_bits != (~found.actual_bits & 0xffffffffu)) throw Error("wrong values");
  });
}

TEST_CASE("many flows into one device land in places of their own") {
  with_transfers(4, 32768, 3, [](RankGroup&, Transfers& transfers) {
    Transfer transfer = one_way(0, 1, true, Engine::copy_engine, 32768);
    transfer.flows = {Flow{1, 0, 1}, Flow{2, 0, 2}, Flow{3, 0, 3}};
    for (size_t i = 0; i < transfer.flows.size(); ++i) transfer.flows[i].landing = i;
    transfers.prepare(transfer);
    transfers.run(2, 10);
    expect_right(transfers.verify({}, 0), 3);
  });
}

TEST_CASE("room is made again for larger transfers, and the old is given back") {
  with_transfers(2, 4096, 1, [](RankGroup&, Transfers& transfers) {
    for (size_t bytes : {size_t{8192}, size_t{3} << 20, size_t{4096}}) {
      transfers.reserve(bytes, 2);
      transfers.prepare(one_way(0, 1, true, Engine::bulk_copy, bytes));
      transfers.run(1, 10);
      expect_right(transfers.verify({}, 0), 1);
    }
  });
}

TEST_CASE("a transfer larger than the room is refused") {
  with_transfers(2, 4096, 1, [](RankGroup&, Transfers& transfers) {
    CHECK_THROWS_AS(transfers.prepare(one_way(0, 1, true, Engine::copy_engine, 4096, 4)), Error);
  });
}

TEST_CASE("latencies are positive and known to all ranks") {
  with_transfers(3, 4096, 1, [](RankGroup& rank_group, Transfers& transfers) {
    for (int round = 0; round < 3; ++round) {
      double chase_s = transfers.chase(0, 2, 1000, 10);
      double ping_s = transfers.ping_pong(1, 2, 50, 30);
      if (!(chase_s > 0) || !(ping_s > 0)) throw Error("no latency");
      std::vector<double> all = rank_group.gather(std::array<double, 1>{chase_s + ping_s});
      for (double other : all) {
        if (other != all[0]) throw Error("ranks do not agree");
      }
    }
  });
}

TEST_CASE("staged copies are refused by host devices on every rank") {
  with_transfers(2, 4096, 1, [](RankGroup&, Transfers& transfers) {
    Transfer transfer = one_way(0, 1, true, Engine::copy_engine, 4096);
    transfer.staged = true;
    CHECK_THROWS_AS(transfers.prepare(transfer), UnsupportedError);
  });
}

TEST_CASE("descriptors of all ranks arrive in order") {
  constexpr int kRanks = 3;
  int shared = memfd_create("test-rank-group", MFD_CLOEXEC);
  auto play = [&](int rank) {
    RankGroup rank_group({.fd = shared, .rank = rank, .size = kRanks, .oversubscribed = true});
    rank_group.expect_within(30, "a test");
    int own = memfd_create("test-content", MFD_CLOEXEC);
    if (write(own, &rank, sizeof(rank)) != sizeof(rank)) return false;
    std::vector<Descriptor> all = exchange_descriptors(rank_group, own);
    close(own);
    for (int other = 0; other < kRanks; ++other) {
      int found = -1;
      if (pread(all[static_cast<size_t>(other)].get(), &found, sizeof(found), 0) != sizeof(found)) {
        return false;
      }
      if (found != other) return false;
    }
    return true;
  };
  std::fflush(nullptr);  // or what waits to be written would be written by every child
  std::cout.flush();
  std::vector<pid_t> children;
  for (int rank = 1; rank < kRanks; ++rank) {
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) _exit(play(rank) ? 0 : 1);
    children.push_back(child);
  }
  CHECK(play(0));
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  close(shared);
}
