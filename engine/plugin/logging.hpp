#pragma once

#include <atomic>

#include "plugin/layouts.hpp"

namespace cclmark::plugin {

/// Logs a warning by NCCL's logger, on standard error if NCCL gave none. NCCL keeps its last
/// warning for ncclGetLastError, also where it prints none.
void warn(Logger log, const char* problem, const char* text);

/// The same, and once for each `is_printed` also on standard error: NCCL's logger prints warnings
/// only from NCCL_DEBUG=WARN on.
void warn_visibly(Logger log, std::atomic_flag& is_printed, const char* problem, const char* text);

/// Warns visibly that events are lost because the log could not be opened; nothing if it was.
void report_missing_log(Logger log);

/// Logs a notice by NCCL's logger, which prints it with NCCL_DEBUG=INFO.
void inform(Logger log, const char* what, const char* text);

}  // namespace cclmark::plugin
