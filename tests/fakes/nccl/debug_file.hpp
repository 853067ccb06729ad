#pragma once

#include <cstdio>

namespace fake_nccl {

/// The file of NCCL_DEBUG_FILE if NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS names `subject`, nullptr
/// otherwise.
FILE* debug_file(const char* subject);

}  // namespace fake_nccl
