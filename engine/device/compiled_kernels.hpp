#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "device/device.hpp"

namespace cclmark {

/// A kernel of a module that a device has loaded.
struct Kernel {
  void* function;
  /// What launches may ask for so far; raised when one asks for more.
  mutable unsigned shared_limit_bytes;
};

/// The file of engine/kernels ("pattern", "transfer", …) that contains a kernel. They are apart,
/// since each takes its time to compile: the pattern is needed in every run, copies only where
/// devices are measured in pairs, reductions only between islands.
const char* kernel_source_of(std::string_view kernel);

/// As many blocks as `items` require and the device runs at once.
Grid grid_for(size_t items, int multiprocessors);

/// Why kernels are not compiled for devices whose compiler at run time is unknown or compiles
/// another language than that of these kernels, which `reason` names.
inline MissingError no_compiler(const std::string& devices, const std::string& reason = {}) {
  if (!reason.empty()) return MissingError("no kernels for " + devices + " devices: " + reason);
  return MissingError("no compiler of kernels at run time is known for " + devices + " devices");
}

/// Whether kernels compiled earlier may be used.
enum class KernelCache { use, renew };

/// A compiler at run time with NVRTC's interface, and how it differs from NVRTC.
struct CompilerKind {
  const char* what;      ///< for messages
  const char* prefix;    ///< of its functions
  const char* variable;  ///< the environment variable that names another file
  /// The kinds of compiled code that it returns, as in Get…Size and Get…, the best first; nullptr
  /// where there is no second one.
  std::array<const char*, 2> images;
  /// Kernels are written in the words that all these compilers have in common: see dialect.cu.
  bool portable = true;
};

/// Loaded when something has to be compiled.
class RuntimeCompiler {
 public:
  /// `files`: where to look for the library.
  RuntimeCompiler(CompilerKind kind, std::function<std::vector<std::string>()> files);
  ~RuntimeCompiler();

  /// The path of the library. Raises MissingError that says where it was looked for.
  const std::string& path();

  /// The kernels of `source`, compiled for `target`, which the code depends on besides the text:
  /// from the cache on disk if they were compiled before. Raises MissingError without the library,
  /// Error with the compiler's log.
  std::string compile(std::string_view source, const std::string& target,
                      const std::vector<std::string>& options, KernelCache cache);

 private:
  struct Functions;
  const Functions& functions();

  CompilerKind kind_;
  std::function<std::vector<std::string>()> files_;
  std::once_flag loading_;
  std::unique_ptr<const Functions> functions_;
};

/// NVIDIA's compiler.
RuntimeCompiler& nvrtc();

/// The kernels of `source` as a cubin for `architecture` (90 for compute capability 9.0).
std::string compile_for_cuda(std::string_view source, int architecture, KernelCache cache);

}  // namespace cclmark
