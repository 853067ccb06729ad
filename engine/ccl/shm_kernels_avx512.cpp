#define CCLMARK_SHM_KERNELS kShmKernels_avx512
#include "ccl/shm_kernels.inc"
