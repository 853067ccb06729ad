#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cclmark {

/// The memory of a rank that a step reads or writes.
enum class Space : uint8_t {
  input,
  output,
  staging,  ///< the library's own, or a processor's registers
  slot,     ///< what a rank of `bridge` publishes
};

inline std::string_view name(Space space) {
  switch (space) {
    case Space::input:
      return "input";
    case Space::output:
      return "output";
    case Space::staging:
      return "staging";
    case Space::slot:
      break;
  }
  return "slot";
}

struct Place {
  Space space;
  size_t offset;  ///< in bytes
};

/// A step of an operation that a library of the engine executes on this rank: data of a rank arrive
/// at another one.
struct PlannedStep {
  static constexpr int kUnknown = -1;

  /// Steps of a lower order come first on all ranks, compared number by number.
  std::vector<int> order;
  std::string phase;
  int source;  ///< kUnknown for an operation of another library whose steps are not known
  int destination;
  size_t bytes;
  Place reads;   ///< of the source
  Place writes;  ///< of the destination
  /// Of the destination: what arrives is reduced with it. A copy has none.
  std::optional<Place> combines;
  std::string medium;

  bool is_local() const { return source == destination; }
};

}  // namespace cclmark
