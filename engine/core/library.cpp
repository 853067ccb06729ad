#include "core/library.hpp"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>

#include <map>

namespace cclmark {
namespace {

std::string mapped_path(void* handle, const std::string& requested) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name[0] == '\0') {
    return requested;
  }
  char resolved[PATH_MAX];
  return realpath(map->l_name, resolved) != nullptr ? resolved : map->l_name;
}

}  // namespace

Library Library::open(const std::string& what, const std::vector<std::string>& candidates,
                      const std::string& variable) {
  // The reasons, and the candidates that each applies to: mostly there is one for all.
  std::map<std::string, std::string> tried;
  for (const std::string& candidate : candidates) {
    void* handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return Library(handle, mapped_path(handle, candidate));
    const char* text = dlerror();
    std::string reason = text != nullptr ? text : "no reason given";
    if (reason.rfind(candidate + ": ", 0) == 0) reason.erase(0, candidate.size() + 2);
    std::string& names = tried[reason];
    names += (names.empty() ? "" : ", ") + candidate;
  }
  std::string message = what + " was not found.";
  for (const auto& [reason, names] : tried) message += "\n  " + names + ": " + reason;
  throw MissingError(message + "\n  Set " + variable +
                     " to the path of the library if it lies elsewhere.");
}

void* Library::find(const char* symbol) const {
  return dlsym(handle_, symbol);
}

}  // namespace cclmark
