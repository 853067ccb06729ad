#pragma once

// Modules and kernels of vendors' devices: of their runtimes, or of a driver in another file.

extern "C" {
int cclmark_fake_load_module(void** module, const void* image);
int cclmark_fake_get_function(void** function, void* module, const char* name);
int cclmark_fake_launch(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        void* stream, void** parameters, void** extra);
}

// MODULE_API(prefix, launch): the functions under the names that the vendor gives them.
#define MODULE_JOINED(prefix, name) prefix##name
#define MODULE_JOIN(prefix, name) MODULE_JOINED(prefix, name)
#define MODULE_API(prefix, launch)                                                                \
  FAKE_API int MODULE_JOIN(prefix, ModuleLoadData)(void** module, const void* image) {            \
    return cclmark_fake_load_module(module, image);                                               \
  }                                                                                               \
  FAKE_API int MODULE_JOIN(prefix, ModuleGetFunction)(void** function, void* module,              \
                                                      const char* name) {                         \
    return cclmark_fake_get_function(function, module, name);                                     \
  }                                                                                               \
  FAKE_API int MODULE_JOIN(prefix, launch)(void* function, unsigned grid_x, unsigned grid_y,      \
                                           unsigned grid_z, unsigned block_x, unsigned block_y,   \
                                           unsigned block_z, unsigned shared_bytes, void* stream, \
                                           void** parameters, void** extra) {                     \
    return cclmark_fake_launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,       \
                               shared_bytes, stream, parameters, extra);                          \
  }
