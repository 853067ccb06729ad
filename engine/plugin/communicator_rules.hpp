#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "plugin/logging.hpp"
#include "plugin/tuner_table.hpp"

namespace cclmark::plugin {

/// The rules of the tuner table for one communicator.
///
/// The table is read when a communicator is created, from the absolute path in
/// CCLMARK_TUNER_TABLE. A table that cannot be read completely makes the creation fail. One that
/// was made for other conditions has no rules here, and neither has a communicator of a size
/// without rules. What a rule decides depends only on the table and on the call's arguments, so
/// that all ranks decide alike.
class CommunicatorRules {
 public:
  /// Reads the table. Returns NCCL's result: other than 0 is a failure, which is logged.
  int load(const void* caller, std::size_t ranks, std::size_t nodes, Logger log);

  /// The rule for a collective of `bytes`, nullptr if there is none.
  const Rule* match(int function, std::size_t bytes) const;

  /// Reports once for each rule that its combination is not available.
  void report_unavailable(const Rule& rule);

 private:
  int choose(const TunerTable& table, const char* path, const void* caller, std::size_t ranks,
             std::size_t nodes);

  Logger log_ = nullptr;
  std::unique_ptr<Rule[]> rules_;
  std::unique_ptr<std::atomic<bool>[]> is_reported_;  // by rule
  std::size_t count_ = 0;
};

}  // namespace cclmark::plugin
