#pragma once

#include <cstddef>

#include "plugin/tuner_table.hpp"

namespace cclmark::plugin {

/// The library that contains an address.
struct Library {
  const char* name;  // nccl or rccl, empty: unknown
  int version;       // as ncclGetVersion returns it, 0: unknown
};

/// Identifies the library that called. Nothing is known of one that is linked statically into
/// another library, or into a program that does not export its functions.
Library library_of(const void* caller);

/// Whether RCCL is loaded in this process and NVIDIA's library is not.
bool is_rccl_alone();

/// The version of NVIDIA's library in this process; 0 if none is loaded under its usual name, or if
/// RCCL is loaded too, so that either may be the caller.
int nvidia_version_loaded();

/// What the conditions of a table are compared with.
struct Surroundings {
  Library library;
  char device[256];  // the name of this thread's device, empty: unknown
  int nvlinks;       // of it, -1: unknown
};

/// Reads what `table` has conditions on. The driver and NVML are used if they are present.
Surroundings surroundings_for(const TunerTable& table, const void* caller);

/// Writes what differs from the table's conditions, or is unknown; empty if nothing is.
void describe_differences(const TunerTable& table, const Surroundings& found, char* text,
                          std::size_t bytes);

}  // namespace cclmark::plugin
