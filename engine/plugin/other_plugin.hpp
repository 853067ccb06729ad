#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "plugin/event_log.hpp"
#include "plugin/layouts.hpp"
#include "plugin/logging.hpp"

/// Exports `symbol`. dlsym calls the resolver of such a symbol and returns the resolver's result:
/// so the symbol is missing for NCCL where `found` is nullptr, which depends on another plug-in.
#define CCLMARK_INTERFACE(symbol, found)                                                    \
  extern "C" void (*cclmark_resolve_##symbol())() {                                         \
    return reinterpret_cast<void (*)()>(reinterpret_cast<std::uintptr_t>(found));           \
  }                                                                                         \
  extern "C" __attribute__((visibility("default"), ifunc("cclmark_resolve_" #symbol))) void \
  symbol();

namespace cclmark::plugin {

/// Keeps this library loaded: NCCL closes it with its last communicator, and the log goes on with
/// the next one.
void stay_loaded();

/// A kind of plug-in.
struct PluginKind {
  const char* name;      // in messages
  const char* variable;  // of the environment: which other plug-in to load
  const char* library;   // the beginning of the file names that NCCL searches
  const char* symbol;    // without the version of the interface
  int oldest;
  int newest;
};

/// Another plug-in of the same kind that this one loads and calls, as NCCL would have done.
///
/// The variable has the values of NCCL's own variable: a file, a library's name, its suffix,
/// STATIC_PLUGIN or none. If it is not set, the plug-in is the one that NCCL loads without a
/// setting, if there is one.
class OtherPlugin {
 public:
  /// Opened at the first call, which is that of dlsym for one of this library's interfaces.
  static OtherPlugin& profiler();
  static OtherPlugin& tuner();

  /// Whether this thread is looking for another plug-in. If it finds this library, it looks up the
  /// interfaces of this library, which must not wait for the end of the search.
  static bool is_searching();

  /// Whether NCCL may find this library's interface of `version`. NCCL uses the newest version that
  /// a library exports, so the other plug-in's versions are offered: then the same structures serve
  /// both. Older ones than all of these are offered too. NCCL looks for them only if it has none of
  /// the other plug-in's versions; that one is then not called.
  bool offers(int version) const;

  /// The other plug-in's interface of `version`, nullptr if it is not to be called.
  const void* interface(int version) const {
    return interfaces_[static_cast<std::size_t>(version)];
  }

  /// Reports once, at the first communicator, if the plug-in that was set cannot be called.
  void report(Logger log, int version);

  /// Reports what the other plug-in's init returned.
  void report_init(Logger log, int version, int result);

 private:
  OtherPlugin(const PluginKind& kind, ChainedPlugin LogHeader::* place);
  void open();
  void* open_named(const char* name);
  void* open_default();
  void find_interfaces(void* library);
  bool is_of_other(const void* interface);
  void write(int version);
  void warn_of_failure(Logger log);

  static constexpr std::size_t kVersions = 8;
  const PluginKind kind_;
  ChainedPlugin LogHeader::* const place_;
  std::array<const void*, kVersions> interfaces_{};
  std::mutex mutex_;
  bool is_reported_ = false;
  ChainedPlugin description_{};
};

}  // namespace cclmark::plugin
