// The driver of a vendor that has a separate library besides the runtime: its functions that load
// and launch kernels.

#include "common/export.hpp"
#include "vendor/modules.hpp"

MODULE_API(DRIVER, LaunchKernel)
