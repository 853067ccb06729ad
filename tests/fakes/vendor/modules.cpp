// The modules of a vendor's runtime, over those of the fake driver.

#include "vendor/modules.hpp"

#include "common/export.hpp"

extern "C" {
int cuModuleLoadData(void**, const void*);
int cuModuleGetFunction(void**, void*, const char*);
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void*, void**, void**);
}

FAKE_API int cclmark_fake_load_module(void** module, const void* image) {
  return cuModuleLoadData(module, image);
}

FAKE_API int cclmark_fake_get_function(void** function, void* module, const char* name) {
  return cuModuleGetFunction(function, module, name);
}

FAKE_API int cclmark_fake_launch(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z,
                                 unsigned shared_bytes, void* stream, void** parameters,
                                 void** extra) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                        stream, parameters, extra);
}

#ifdef VENDOR_MODULES
MODULE_API(VENDOR_MODULES, ModuleLaunchKernel)
#endif
