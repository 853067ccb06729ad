#pragma once

#include "plugin/layouts.hpp"

namespace cclmark::plugin {

/// Logs a warning by NCCL's logger, on standard error if NCCL gave none. NCCL keeps its last
/// warning for ncclGetLastError, also where it prints none.
void warn(Logger log, const char* problem, const char* text);

/// Logs a notice by NCCL's logger, which prints it with NCCL_DEBUG=INFO.
void inform(Logger log, const char* what, const char* text);

}  // namespace cclmark::plugin
