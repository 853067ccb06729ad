#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ccl/bridge_plan.hpp"
#include "ccl/planned_step.hpp"

namespace cclmark {

/// A rank's plan of an operation, and what is needed to describe it.
struct DescribedPlan {
  const IslandMap& map;
  int rank;
  std::span<const Step> steps;
  /// Plans of the same operation for all ranks of the island, this one included, in their order.
  /// Steps within the island read and write places that these plans contain.
  std::span<const std::vector<Step>> of_island;
  /// The way of data of a rank in another island to this one.
  std::function<std::string(int source)> medium;
};

/// The steps of a plan that this rank executes, with those of its island's library if that is one
/// of the engine. The order of a step begins with the number of the plan's step, then 0 for what
/// happens before ranks of other islands are read, 1 for that, and 2 for what follows.
std::vector<PlannedStep> described(const DescribedPlan& plan);

}  // namespace cclmark
