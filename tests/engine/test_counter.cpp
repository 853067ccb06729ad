#include <doctest/doctest.h>

#include <array>
#include <functional>

#include "core/counter.hpp"
#include "lazy_device.hpp"
#include "measure/session.hpp"
#include "ranks.hpp"
#include "shapes.hpp"

using namespace cclmark;

namespace {

constexpr size_t kOffset = 4096 + 64 + 32;  // the second slot of a board's second page

struct Counts {
  uint64_t communicators, entered, complete, before_batch;
  bool operator==(const Counts&) const = default;
};

/// A file that is watched, as a launcher does: not through the counter's own mapping.
class Board {
 public:
  Board() : fd_(memfd_create("test-board", MFD_CLOEXEC)) {
    REQUIRE(ftruncate(fd_, kOffset + 32) == 0);
  }
  ~Board() { close(fd_); }
  int fd() const { return fd_; }
  Counts read() const {
    std::array<uint64_t, 4> words{};
    if (pread(fd_, words.data(), sizeof(words), kOffset) != sizeof(words)) throw Error("no board");
    return {words[0], words[1], words[2], words[3]};
  }

 private:
  int fd_;
};

/// A library that looks at the board in every call, as somebody would who finds the rank hung
/// there.
class Watched final : public Communicator {
 public:
  explicit Watched(std::function<void()> look) : look_(std::move(look)) {}

  std::unique_ptr<Call> bind(const Operation&, void*) override {
    struct LookingCall final : Call {
      explicit LookingCall(const std::function<void()>& look) : look_(look) {}
      void enqueue(const void*, void*) override { look_(); }
      const std::function<void()>& look_;
    };
    return std::make_unique<LookingCall>(look_);
  }
  std::string route(const Operation&) const override { return "native"; }
  void begin_group() override {}

 private:
  std::function<void()> look_;
};

class WithGraphs final : public LazyDevice {
 public:
  explicit WithGraphs(std::function<void()> look) : LazyDevice(0, 1, -1), look_(std::move(look)) {}
  void begin_capture(void*) override {}
  void* end_capture(void*) override { return this; }
  void launch_graph(void*, void*) override { look_(); }
  void destroy_graph(void*) noexcept override {}

 private:
  std::function<void()> look_;
};

/// What the board says in each call of one batch and after it, on a device of its own.
std::vector<Counts> seen_in(Device& device, const Board& board, std::vector<Counts>& seen,
                            const std::vector<Batch>& batches) {
  run_ranks(1, [&](RankGroup& rank_group) {
    OperationCounter counter(board.fd(), kOffset);
    Watched communicator([&] { seen.push_back(board.read()); });
    Session session(device, rank_group, communicator, &counter);
    if (board.read().communicators != 1) throw Error("no communicator is noted");
    session.reserve(4096, 4096, {});
    Operation op;
    op.count = 4;
    session.prepare(op, false, 1);
    for (const Batch& batch : batches) session.run(batch);
  });
  return seen;
}

}  // namespace

TEST_CASE("in a call that hangs the board tells which one it is and which ones are complete") {
  Board board;
  std::vector<Counts> seen;
  auto device = open_host_device(0);
  Batch three{Timing::throughput, 3};
  seen_in(*device, board, seen, {three, three});
  std::vector<Counts> expected{{1, 1, 0, 0}, {1, 2, 1, 0}, {1, 3, 2, 0},
                               {1, 4, 3, 3}, {1, 5, 4, 3}, {1, 6, 5, 3}};
  CHECK(seen == expected);
  CHECK(board.read() == Counts{1, 6, 6, 3});
}

TEST_CASE("what is enqueued is complete when the stream was found idle, not before") {
  Board board;
  std::vector<Counts> seen;
  LazyDevice device(0, 1, -1);
  seen_in(device, board, seen,
          {{Timing::throughput, 2},
           {Timing::throughput, 2, 2, 1, 0},
           {Timing::blocking, 2},
           {Timing::per_op, 2}});
  std::vector<Counts> expected{{1, 1, 0, 0}, {1, 2, 0, 0},  // throughput
                               {1, 3, 2, 2}, {1, 4, 2, 2}, {1, 5, 2, 2}, {1, 6, 2, 2},  // in groups
                               {1, 7, 6, 6}, {1, 8, 7, 6},                              // blocking
                               {1, 9, 8, 8}, {1, 10, 8, 8}};                            // per-op
  CHECK(seen == expected);
  CHECK(board.read() == Counts{1, 10, 10, 8});
}

TEST_CASE("calls in a group that return at once are not taken for complete") {
  Board board;
  std::vector<Counts> seen;
  auto device = open_host_device(0);
  seen_in(*device, board, seen, {{Timing::throughput, 1, 3, 1, 0}});
  CHECK(seen == std::vector<Counts>{{1, 1, 0, 0}, {1, 2, 0, 0}, {1, 3, 0, 0}});
  CHECK(board.read().complete == 3);
}

TEST_CASE("each launch of a graph enters its operations, their capture enters none") {
  Board board;
  std::vector<Counts> seen;
  WithGraphs device([&] { seen.push_back(board.read()); });
  seen_in(device, board, seen, {{Timing::graph, 3, 1, 2, 0}, {Timing::graph, 3, 1, 2, 0}});
  std::vector<Counts> expected{{1, 1, 0, 0},  {1, 2, 0, 0}, {1, 3, 0, 0},  // while it is captured
                               {1, 3, 0, 0},                               // upload
                               {1, 6, 3, 0},  {1, 9, 3, 0},                // two launches
                               {1, 12, 9, 9}, {1, 15, 9, 9}};              // of the same graph
  CHECK(seen == expected);
  CHECK(board.read() == Counts{1, 15, 15, 9});
}

TEST_CASE("the check's operation counts, and a new communicator begins at nought") {
  Board board;
  run_ranks(1, [&](RankGroup& rank_group) {
    auto device = open_host_device(0);
    auto ccl = open_ccl(shape_of("shm"), {});
    OperationCounter counter(board.fd(), kOffset);
    for (uint64_t number : {1, 2}) {
      auto communicator = ccl->join(*device, ccl->make_id(1), rank_group);
      Session session(*device, rank_group, *communicator, &counter);
      if (board.read() != Counts{number, 0, 0, 0}) throw Error("does not begin at nought");
      session.reserve(4096, 4096, {});
      Operation op;
      op.count = 4;
      session.prepare(op, false, 1);
      if (session.verify(std::nullopt).findings[0].wrong != 0) throw Error("wrong data");
      if (board.read() != Counts{number, 1, 1, 0}) throw Error("the check is not counted");
    }
  });
}

TEST_CASE("counts are refused where the board has no room for them") {
  Board board;
  CHECK_THROWS_AS(OperationCounter(board.fd(), kOffset + 32), Error);
  CHECK_THROWS_AS(OperationCounter(board.fd(), kOffset - 8), Error);
  CHECK_THROWS_AS(OperationCounter(-1, 0), Error);
}
