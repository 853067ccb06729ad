#define CCLMARK_SHM_KERNELS kShmKernels_baseline
#include "ccl/shm_kernels.inc"
