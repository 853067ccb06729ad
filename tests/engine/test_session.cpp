#include <doctest/doctest.h>

#include <atomic>

#include "measure/session.hpp"
#include "ranks.hpp"

using namespace cclmark;

namespace {

/// A library whose memory runs out on one rank, and whose enrolling would wait for all ranks.
class Scarce final : public Communicator {
 public:
  Scarce(Device& device, bool has_memory, std::atomic<int>& enrolled)
      : device_(device), has_memory_(has_memory), enrolled_(enrolled) {}

  std::unique_ptr<Call> bind(const Operation&, void*) override { throw UnsupportedError("none"); }
  std::string route(const Operation&) const override { return "none"; }
  void* allocate(size_t bytes, Registration) override {
    if (!has_memory_) throw OutOfMemoryError("nothing is left here");
    ++held;
    return device_.allocate(bytes);
  }
  void enroll(void*, size_t, Registration) override { ++enrolled_; }
  void release(void* memory, Registration) noexcept override {
    --held;
    device_.release(memory);
  }

  int held = 0;

 private:
  Device& device_;
  bool has_memory_;
  std::atomic<int>& enrolled_;
};

}  // namespace

TEST_CASE("no rank enrols its buffers when one rank could not have its own") {
  for (int poor : {-1, 0, 1}) {
    std::atomic<int> enrolled = 0, refused = 0;
    run_ranks(2, [&](Team& team) {
      auto device = open_host_device(team.rank());
      Scarce communicator(*device, team.rank() != poor, enrolled);
      {
        Session session(*device, team, communicator);
        try {
          session.reserve(4096, 4096, Registration::symmetric);
        } catch (const OutOfMemoryError&) {
          ++refused;
        }
      }
      if (communicator.held != 0) throw Error("memory was not given back");
    });
    CHECK(refused == (poor < 0 ? 0 : 2));
    CHECK(enrolled == (poor < 0 ? 4 : 0));
  }
}
