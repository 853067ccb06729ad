#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "measure/session.hpp"
#include "ranks.hpp"

using namespace cclmark;

namespace {

/// A library that notes where it is told to write.
class Noting final : public Communicator {
 public:
  std::unique_ptr<Call> bind(const Operation&, void*) override {
    struct Note final : Call {
      explicit Note(std::vector<void*>& places) : places_(places) {}
      void enqueue(const void*, void* receive) override { places_.push_back(receive); }
      std::vector<void*>& places_;
    };
    return std::make_unique<Note>(places);
  }
  std::string route(const Operation&) const override { return "native"; }

  std::vector<void*> places;
};

}  // namespace

TEST_CASE("operations of a batch go through the buffers, or stay where they begin if asked to") {
  run_ranks(1, [&](RankGroup& rank_group) {
    auto device = open_host_device(0);
    Noting communicator;
    Session session(*device, rank_group, communicator);
    session.reserve(1 << 16, 1 << 16, {});
    Operation op;
    op.count = 1024;
    session.prepare(op, false, 1);
    auto places_in = [&](Batch batch) {
      communicator.places.clear();
      session.run(batch);
      return std::pair{communicator.places.front(),
                       std::set(communicator.places.begin(), communicator.places.end()).size()};
    };
    for (Timing timing : {Timing::throughput, Timing::blocking, Timing::per_op}) {
      auto [cold_first, cold] = places_in({.timing = timing, .iterations = 6});
      auto [warm_first, warm] = places_in({.timing = timing, .iterations = 6, .warm = true});
      CHECK(cold == 6);
      CHECK(warm == 1);
      CHECK(cold_first == warm_first);
    }
  });
}
