#include "ccl/bridge_steps.hpp"

#include "collective/table.hpp"

namespace cclmark {
namespace {

enum Turn : uint8_t { kBefore, kBetween, kAfter };

class Describer {
 public:
  explicit Describer(const DescribedPlan& plan)
      : plan_(plan), first_(plan.map.first_of(plan.map.island_of(plan.rank))) {}

  std::vector<PlannedStep> all() {
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      number_ = static_cast<int>(i);
      add_works(step.work, kBefore);
      if (step.publishes && !step.on_main() && step.bytes > 0) {
        add({number_, kBefore, 0}, "publication", plan_.rank, step.bytes, {Space::input, step.from},
            {Space::slot, 0}, {});
      }
      add_takes(step);
      add_works(step.finish, kAfter);
    }
    return std::move(steps_);
  }

 private:
  void add(std::vector<int> order, std::string phase, int source, size_t bytes, Place reads,
           Place writes, std::optional<Place> combines, std::string medium = {}) {
    steps_.push_back({std::move(order), std::move(phase), source, plan_.rank, bytes, reads, writes,
                      combines, std::move(medium)});
  }

  void add_takes(const Step& step) {
    for (const Take& take : step.takes) {
      Place to{Space::output, take.to};
      std::optional<Place> own;
      if (step.reduces && take.bytes > 0) {
        own = take.own == Take::Own::input  ? Place{Space::input, take.own_at}
              : take.own == Take::Own::slot ? Place{Space::slot, take.own_at}
                                            : to;
      }
      const char* phase = take.bytes == 0 ? "announcement" : "between islands";
      add({number_, kBetween}, phase, take.source, take.bytes, {Space::slot, take.at}, to, own,
          plan_.medium(take.source));
    }
  }

  void add_works(const std::vector<InnerWork>& works, Turn turn) {
    for (size_t k = 0; k < works.size(); ++k) {
      const InnerWork& work = works[k];
      std::vector<int> order{number_, turn, static_cast<int>(k)};
      if (!work.operation) {
        if (work.bytes > 0) add(order, "copy", plan_.rank, work.bytes, work.from, work.to, {});
      } else if (work.call->kernel().empty()) {
        add_unknown(*work.operation, order, work);
      } else {
        add_of_island(work, order, turn, k);
      }
    }
  }

  /// An operation of a library that does not describe its steps.
  void add_unknown(const Operation& op, std::vector<int> order, const InnerWork& work) {
    int ranks = plan_.map.ranks_of(plan_.map.island_of(plan_.rank));
    size_t count = info(op.collective).receive_count(op, plan_.rank - first_, ranks);
    add(std::move(order), std::string(name(op.collective)) + " of the island",
        PlannedStep::kUnknown, count * size_bytes(op.dtype), work.from, work.to, {},
        "library of the island");
  }

  /// The steps of the island's library, which knows neither the other islands nor where its buffers
  /// lie in those of the operation.
  void add_of_island(const InnerWork& work, const std::vector<int>& order, Turn turn, size_t k) {
    std::string within = std::string(name(work.operation->collective)) + " of the island";
    for (PlannedStep step : work.call->steps()) {
      auto place_of = [&](Place place, int rank) {
        const Step& theirs =
            plan_.of_island[static_cast<size_t>(rank)][static_cast<size_t>(number_)];
        const InnerWork& same = (turn == kBefore ? theirs.work : theirs.finish)[k];
        if (place.space == Space::staging) return place;
        const Place& begin = place.space == Space::input ? same.from : same.to;
        return Place{begin.space, begin.offset + place.offset};
      };
      step.reads = place_of(step.reads, step.source);
      step.writes = place_of(step.writes, step.destination);
      if (step.combines) step.combines = place_of(*step.combines, step.destination);
      step.source += first_;
      step.destination += first_;
      step.order.insert(step.order.begin(), order.begin(), order.end());
      step.phase = within + ": " + step.phase;
      steps_.push_back(std::move(step));
    }
  }

  const DescribedPlan& plan_;
  int first_;
  int number_ = 0;
  std::vector<PlannedStep> steps_;
};

}  // namespace

std::vector<PlannedStep> described(const DescribedPlan& plan) {
  return Describer(plan).all();
}

}  // namespace cclmark
