#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace cclmark::plugin {

/// NCCL's number of the collective, and what is to run for sizes in a range.
struct Rule {
  int function;
  int algorithm;
  int protocol;
  int channels;  // 0: the library's choice
  std::uint64_t ranks;
  std::uint64_t nodes;
  std::uint64_t smallest_bytes;
  std::uint64_t largest_bytes;
  int line;
};

/// A tuner table: the conditions under which it was proven, and its rules, whose sizes never
/// overlap.
struct TunerTable {
  char library[8];  // nccl or rccl
  int library_version;
  char device[256];
  int nvlinks;  // of a device, -1: not a condition
  std::unique_ptr<Rule[]> rules;
  std::size_t rule_count;
};

constexpr std::size_t kMostTableBytes = 1 << 20;

/// Reads the text of a table; docs/reference/tuner-table.md describes it. Returns whether it is
/// valid. Otherwise `problem`, of `problem_bytes`, contains the line, the field and the reason, in
/// the words of src/cclmark/kinds/tune/table_file.py.
bool parse_table(const char* text, std::size_t bytes, TunerTable& table, char* problem,
                 std::size_t problem_bytes);

/// The names in tables and messages: ring, ll128, all_reduce.
const char* algorithm_name(int algorithm);
const char* protocol_name(int protocol);
const char* function_name(int function);

/// Whether the algorithm is one of NVLink SHARP.
bool is_nvls(int algorithm);
/// Whether the algorithm requires a network with collectives.
bool is_collnet(int algorithm);

}  // namespace cclmark::plugin
