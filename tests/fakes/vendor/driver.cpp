// A vendor's driver in a file of its own beside the runtime: what of it loads and launches kernels.

#include "common/export.hpp"
#include "vendor/modules.hpp"

MODULE_API(DRIVER, LaunchKernel)
