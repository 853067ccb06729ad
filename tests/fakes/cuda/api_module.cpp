// Modules and kernels.

#include "common/export.hpp"
#include "cuda/driver.hpp"

namespace fake_cuda {
namespace {

constexpr unsigned kMostThreadsPerBlock = 1024;
constexpr unsigned kUnaskedSharedBytes = 48 << 10;
constexpr int kMaxDynamicSharedBytes = 8;
constexpr FakeExtent kMostThreads{1024, 1024, 64};
constexpr FakeExtent kMostBlocks{0x7fffffff, 65535, 65535};

bool within(FakeExtent extent, FakeExtent most) {
  return extent.x > 0 && extent.y > 0 && extent.z > 0 && extent.x <= most.x && extent.y <= most.y &&
         extent.z <= most.z;
}

}  // namespace

FAKE_API int cuModuleLoadData(void** module, const void* image) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    std::shared_ptr<Context> context = driver.current();
    require(module != nullptr, kInvalidValue);
    *module = driver.modules.add(
        std::make_shared<Module>(std::move(context), image, driver.architecture()));
  });
}

FAKE_API int cuModuleGetFunction(void** function, void* module, const char* name) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    require(function != nullptr && name != nullptr, kInvalidValue);
    std::shared_ptr<Module> source = driver.own(driver.modules, module);
    *function = driver.functions.add(std::make_shared<Function>(
        Function{source->context, source, source->entry(name),
                 std::make_shared<std::atomic<unsigned>>(kUnaskedSharedBytes)}));
  });
}

FAKE_API int cuFuncSetAttribute(void* function, int attribute, int value) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    std::shared_ptr<Function> changed = driver.own(driver.functions, function);
    require(attribute == kMaxDynamicSharedBytes, kInvalidValue);
    require(value >= 0 && value <= kMostSharedBytes, kInvalidValue);
    *changed->most_shared_bytes = static_cast<unsigned>(value);
  });
}

FAKE_API int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared_bytes, void* stream, void** parameters, void** extra) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    std::shared_ptr<Function> launched = driver.own(driver.functions, function);
    std::shared_ptr<Stream> target = driver.own(driver.streams, stream);
    FakeExtent grid{grid_x, grid_y, grid_z}, block{block_x, block_y, block_z};
    require(within(grid, kMostBlocks) && within(block, kMostThreads), kInvalidValue);
    require(block_x * block_y * block_z <= kMostThreadsPerBlock, kInvalidValue);
    // Shared memory is granted, but no kernel here can use it.
    require(shared_bytes <= *launched->most_shared_bytes, kInvalidValue);
    require(extra == nullptr, kInvalidValue);
    target->push(make_launch(std::move(launched), grid, block, parameters));
  });
}

}  // namespace fake_cuda
