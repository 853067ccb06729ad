#pragma once

#include <string>
#include <vector>

namespace fake_nvrtc {

struct Compilation {
  bool succeeded = false;
  std::string log;
  std::string object;  ///< a shared object for the host
};

/// Compiles CUDA source with the host's C++ compiler ($CXX, else c++). `options` go to it as they
/// are; `name` is what the log calls the source.
Compilation compile_for_host(const std::string& source, const std::string& name,
                             const std::vector<std::string>& options);

}  // namespace fake_nvrtc
