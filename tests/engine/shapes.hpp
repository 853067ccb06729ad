#pragma once

#include <numeric>
#include <string>

#include "ccl/description.hpp"

/// A library of `shape` without a file, as far as the engine has to know it.
inline cclmark::CclDescription shape_of(const std::string& shape) {
  cclmark::CclDescription description;
  description.name = description.shape = description.prefix = shape;
  std::iota(description.dtypes.begin(), description.dtypes.end(), 0);
  std::iota(description.reductions.begin(), description.reductions.end(), 0);
  return description;
}
