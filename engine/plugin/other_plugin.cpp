#include "plugin/other_plugin.hpp"

#include <dlfcn.h>
#include <strings.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cclmark::plugin {

namespace {

constexpr char kStatic[] = "STATIC_PLUGIN";
constexpr PluginKind kProfilers = {
    "profiler", "CCLMARK_PLUGIN_PROFILER", "libnccl-profiler", "ncclProfiler_v", 1, 7};
constexpr PluginKind kTuners = {
    "tuner", "CCLMARK_PLUGIN_TUNER", "libnccl-tuner", "ncclTunerPlugin_v", 2, 6};

/// Any address within this library.
char own_address;

thread_local bool is_opening = false;

const void* library_at(const void* address) {
  Dl_info found{};
  return dladdr(address, &found) != 0 ? found.dli_fbase : nullptr;
}

bool is_file_name(const char* name) {
  const std::size_t length = std::strlen(name);
  const bool ends_as_library = length >= 3 && std::strcmp(name + length - 3, ".so") == 0;
  return std::strchr(name, '/') != nullptr ||
         (std::strncmp(name, "lib", 3) == 0 && ends_as_library);
}

const char* setting(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr ? text : "";
}

}  // namespace

void stay_loaded() {
  static const bool done = [] {
    Dl_info own{};
    if (dladdr(&own_address, &own) != 0 && own.dli_fname != nullptr) {
      dlopen(own.dli_fname, RTLD_LAZY | RTLD_NODELETE | RTLD_NOLOAD);
    }
    return true;
  }();
  static_cast<void>(done);
}

OtherPlugin& OtherPlugin::profiler() {
  // Never destroyed, nor is the plug-in closed: threads of NCCL may outlive main.
  static OtherPlugin* const found = new OtherPlugin(kProfilers, &LogHeader::profiler);
  return *found;
}

OtherPlugin& OtherPlugin::tuner() {
  static OtherPlugin* const found = new OtherPlugin(kTuners, &LogHeader::tuner);
  return *found;
}

bool OtherPlugin::is_searching() {
  return is_opening;
}

OtherPlugin::OtherPlugin(const PluginKind& kind, ChainedPlugin LogHeader::* place)
    : kind_(kind), place_(place) {
  is_opening = true;
  open();
  is_opening = false;
  dlerror();  // discards the errors of the search: the caller of dlsym may ask for its own
}

bool OtherPlugin::offers(int version) const {
  bool has_older = false;
  for (int older = kind_.oldest; older < version; ++older) {
    has_older = has_older || interface(older) != nullptr;
  }
  return interface(version) != nullptr || !has_older;
}

void OtherPlugin::open() {
  const char* name = setting(kind_.variable);
  if (strcasecmp(name, "none") == 0) {
    return;
  }
  void* library = *name != '\0' ? open_named(name) : open_default();
  if (library != nullptr) {
    find_interfaces(library);
  }
}

void* OtherPlugin::open_named(const char* name) {
  copy_text(description_.name, sizeof description_.name - 1, name);
  const bool is_program = strcasecmp(name, kStatic) == 0;
  void* library = dlopen(is_program ? nullptr : name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr && !is_file_name(name)) {
    char path[PATH_MAX];
    std::snprintf(path, sizeof path, "%s-%s.so", kind_.library, name);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    const char* reason = dlerror();
    copy_text(description_.reason, sizeof description_.reason - 1,
              reason != nullptr ? reason : "it cannot be opened");
  }
  return library;
}

void* OtherPlugin::open_default() {
  std::snprintf(description_.name, sizeof description_.name, "%s.so", kind_.library);
  if (void* library = dlopen(description_.name, RTLD_NOW | RTLD_LOCAL)) {
    return library;
  }
  // The network's plug-in, which NCCL has loaded before, may contain others.
  const char* network = setting("NCCL_NET_PLUGIN");
  const char* format = *network == '\0' || is_file_name(network) ? "%s" : "libnccl-net-%s.so";
  std::snprintf(description_.name, sizeof description_.name, format,
                *network != '\0' ? network : "libnccl-net.so");
  void* library = dlopen(description_.name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) {
    description_ = {};
  }
  return library;
}

void OtherPlugin::find_interfaces(void* library) {
  const bool is_set = *setting(kind_.variable) != '\0';
  bool has_interface = false;
  for (int version = kind_.oldest; version <= kind_.newest; ++version) {
    char symbol[64];
    std::snprintf(symbol, sizeof symbol, "%s%d", kind_.symbol, version);
    const void* found = dlsym(library, symbol);
    if (found != nullptr && !is_of_other(found)) {
      interfaces_ = {};
      return;
    }
    interfaces_[static_cast<std::size_t>(version)] = found;
    has_interface = has_interface || found != nullptr;
  }
  if (!has_interface && is_set) {
    std::snprintf(description_.reason, sizeof description_.reason, "it exports none of %s%d to v%d",
                  kind_.symbol, kind_.oldest, kind_.newest);
  } else if (!has_interface) {
    description_ = {};
  }
}

/// Whether the interface is of another plug-in than this one. Sets the reason if not.
bool OtherPlugin::is_of_other(const void* interface) {
  const char* reason = nullptr;
  const char* name = *static_cast<const char* const*>(interface);  // the first field of all
  if (library_at(interface) == library_at(&own_address)) {
    reason = "it is cclmark's plug-in itself";
  } else if (name != nullptr && std::strncmp(name, "cclmark", 7) == 0) {
    reason = "it is another copy of cclmark's plug-in";
  }
  if (reason != nullptr) {
    copy_text(description_.reason, sizeof description_.reason, reason);
  }
  return reason == nullptr;
}

void OtherPlugin::report(Logger log, int version) {
  const std::lock_guard lock(mutex_);
  if (*description_.name == '\0' || interface(version) != nullptr || is_reported_) {
    return;
  }
  is_reported_ = true;
  if (*description_.reason == '\0') {
    std::snprintf(description_.reason, sizeof description_.reason,
                  "it exports no %s interface up to version %d, the newest of this library",
                  kind_.name, version);
  }
  warn_of_failure(log);
  write(0);
}

void OtherPlugin::report_init(Logger log, int version, int result) {
  const std::lock_guard lock(mutex_);
  if (result != 0) {
    std::snprintf(description_.reason, sizeof description_.reason, "its init returned %d", result);
    warn_of_failure(log);
  }
  write(result == 0 ? version : 0);
}

void OtherPlugin::warn_of_failure(Logger log) {
  char text[sizeof description_.name + sizeof description_.reason + 128];
  std::snprintf(text, sizeof text, "%s: %s (set %s to another one, or to none)", description_.name,
                description_.reason, kind_.variable);
  char problem[64];
  std::snprintf(problem, sizeof problem, "does not call the %s plug-in", kind_.name);
  warn(log, problem, text);
}

/// Writes the description to the log. `version`: of the interface by which it is called, 0 if not.
void OtherPlugin::write(int version) {
  if (version != 0) {
    description_.interface_version = static_cast<std::uint32_t>(version);
  }
  if (EventLog* events = EventLog::if_recording()) {
    events->header().*place_ = description_;
  }
}

}  // namespace cclmark::plugin
