#pragma once

#include <cstdlib>

/// The file of the NCCL plug-in. Where tests are linked with another build than their own, ctest
/// names that one's.
inline const char* plugin_path() {
  const char* named = std::getenv("CCLMARK_TESTED_PLUGIN");
  return named != nullptr ? named : PLUGIN;
}
