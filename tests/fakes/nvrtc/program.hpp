#pragma once

#include <string>
#include <vector>

namespace fake_nvrtc {

/// NVRTC's results that the fake gives, with the vendor's numbers.
enum Result : int {
  kSuccess = 0,
  kOutOfMemory = 1,
  kInvalidInput = 3,
  kInvalidProgram = 4,
  kInvalidOption = 5,
  kCompilation = 6,
};

struct Program {
  std::string source;
  std::string name;
  bool compiled = false;
  std::string log;
  std::string image;

  /// Replaces log and image.
  Result compile(const std::vector<std::string>& options);
};

}  // namespace fake_nvrtc
