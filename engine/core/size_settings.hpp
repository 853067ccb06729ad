#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "core/rank_group.hpp"

namespace cclmark {

/// A size in bytes that a variable of the environment sets.
struct SizeSetting {
  const char* variable;
  size_t least;
  size_t most;
  /// Without the variable. Outside the range if the default depends on more than the setting.
  size_t usual;
  size_t multiple = 1;
};

/// The bytes of a text: 8, 128K, 4G, 1GiB, 1.5M. Units are powers of 1024. Returns false unless it
/// is a whole number of bytes below a pebibyte.
bool read_size(std::string_view text, size_t& bytes);

/// The value of a setting in the environment of this process. Raises UsageError with the variable,
/// its value and the allowed ones.
size_t size_from_environment(const SizeSetting& setting);

/// The values of settings, which must be equal on all ranks, in the order of `settings`. A
/// collective call. Raises UsageError on every rank whose own value is not allowed, and on all
/// ranks if values differ; the message contains ranks and values.
std::vector<size_t> agreed_sizes(std::span<const SizeSetting> settings, RankGroup& rank_group);

}  // namespace cclmark
