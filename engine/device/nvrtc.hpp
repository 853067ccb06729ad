#pragma once

#include <string>
#include <string_view>

namespace cclmark {

/// The path of NVRTC. Raises MissingError that says where it was looked for.
std::string nvrtc_path();

/// Whether kernels compiled earlier may be used.
enum class KernelCache { use, renew };

/// The kernels of engine/kernels/`source`.cu ("pattern", "transfer") as a cubin for `architecture`
/// (90 for compute capability 9.0), from the cache on disk when they were compiled before. Raises
/// MissingError without NVRTC, Error with the compiler's log.
std::string compile_for_cuda(std::string_view source, int architecture, KernelCache cache);

}  // namespace cclmark
