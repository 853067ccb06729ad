#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "cuda/kernel_entry.hpp"
#include "cuda/stream.hpp"

namespace fake_cuda {

/// A loaded image.
class Module {
 public:
  /// Raises Refusal when `image` is not from the fake NVRTC or is for another architecture.
  Module(std::shared_ptr<Context> owner, const void* image, int architecture);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Raises Refusal when there is no such kernel.
  const FakeKernelEntry& entry(const std::string& name) const;

  const std::shared_ptr<Context> context;

 private:
  int fd_ = -1;
  void* library_ = nullptr;
};

/// Of a block, all of them asked for at launch.
constexpr int kMostSharedBytes = 227 << 10;

struct Function {
  std::shared_ptr<Context> context;
  std::shared_ptr<Module> module;
  const FakeKernelEntry& entry;
  std::shared_ptr<std::atomic<unsigned>> most_shared_bytes;  ///< that a launch may ask for
};

/// A launch of `function` with a copy of its parameters.
Work make_launch(std::shared_ptr<Function> function, FakeExtent grid, FakeExtent block,
                 void* const* parameters);

}  // namespace fake_cuda
