#pragma once

#include <cstddef>
#include <span>

#include "core/dtype.hpp"

namespace cclmark {

/// The inner loops of the `shm` library, for one instruction set.
struct ShmKernels {
  /// to[t][i] = reduction over s of from[s][i], for every target t and i < count. A target may be
  /// one of the sources. `stream`: the result goes past the cache.
  void (*reduce)(std::span<std::byte* const> to, std::span<const std::byte* const> from,
                 size_t count, Dtype dtype, Reduction reduction, bool stream);
  void (*copy)(std::byte* to, const std::byte* from, size_t bytes, bool stream);
};

/// The kernels for the best instruction set of this processor.
const ShmKernels& shm_kernels();

}  // namespace cclmark
