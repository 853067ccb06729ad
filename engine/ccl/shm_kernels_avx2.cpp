#define CCLMARK_SHM_KERNELS kShmKernels_avx2
#include "ccl/shm_kernels.inc"
