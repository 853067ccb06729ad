#include "core/library.hpp"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string_view>

namespace cclmark {
namespace {

/// The loader's message for a missing file; if a dependency is missing, it names the dependency.
constexpr std::string_view kNoFile = "cannot open shared object file: No such file or directory";

std::string mapped_path(void* handle, const std::string& requested) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name[0] == '\0') {
    return requested;
  }
  char resolved[PATH_MAX];
  return realpath(map->l_name, resolved) != nullptr ? resolved : map->l_name;
}

/// The first bytes of an ELF file for processors with words as wide as ours.
std::optional<ElfW(Ehdr)> header_of(std::ifstream& file) {
  ElfW(Ehdr) header;
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header))) return {};
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return {};
  return header;
}

/// What is wrong with a file that is there, where the loader would say that it is not (it is for
/// another processor), or the process would be killed when it touches what is missing (it is cut
/// off). Empty for all else.
std::string flaw_of(const std::string& path) {
  if (path.find('/') == std::string::npos) return "";  // the loader looks for it
  std::ifstream file(path, std::ios::binary), self("/proc/self/exe", std::ios::binary);
  auto header = header_of(file), own = header_of(self);
  if (!header || !own) return "";
  if (header->e_machine != own->e_machine) {
    return "is for another processor (ELF machine " + std::to_string(header->e_machine) +
           ", this one is " + std::to_string(own->e_machine) + ")";
  }
  std::error_code unknown;
  uintmax_t bytes = std::filesystem::file_size(path, unknown);
  file.seekg(static_cast<std::streamoff>(header->e_phoff));
  for (unsigned i = 0; i < header->e_phnum && !unknown; ++i) {
    ElfW(Phdr) segment;
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof(segment))) return "is cut off";
    uintmax_t end = segment.p_offset + segment.p_filesz;
    if (segment.p_type == PT_LOAD && end > bytes) {
      return "is cut off: it has " + std::to_string(bytes) + " of at least " + std::to_string(end) +
             " bytes";
    }
  }
  return "";
}

}  // namespace

const char* setting(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

std::vector<std::string> setting_list(const char* variable) {
  std::vector<std::string> parts;
  const char* text = setting(variable);
  if (text == nullptr) return parts;
  const std::string list = text;
  for (size_t start = 0; start < list.size();) {
    size_t end = std::min(list.find(':', start), list.size());
    parts.push_back(list.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

Library Library::open(const std::string& what, const std::vector<std::string>& candidates,
                      const std::string& variable, Symbols symbols,
                      const std::vector<Refused>& refused) {
  int visible = symbols == Symbols::for_all ? RTLD_GLOBAL : RTLD_LOCAL;
  // The reasons, and the candidates that each applies to: mostly there is one for all.
  std::map<std::string, std::string> tried;
  auto add = [&tried](const std::string& reason, const std::string& name) {
    std::string& names = tried[reason];
    names += (names.empty() ? "" : ", ") + name;
  };
  for (const std::string& candidate : candidates) {
    std::string reason = flaw_of(candidate);
    if (reason.empty()) {
      void* handle = dlopen(candidate.c_str(), RTLD_NOW | visible);
      if (handle != nullptr) return Library(handle, mapped_path(handle, candidate));
      const char* text = dlerror();
      reason = text != nullptr ? text : "no reason given";
    }
    if (reason.rfind(candidate + ": ", 0) == 0) reason.erase(0, candidate.size() + 2);
    add(reason, candidate);
  }
  for (const Refused& one : refused) {
    const bool is_path = one.name.find('/') != std::string::npos;
    std::error_code unknown;
    if (is_path && std::filesystem::exists(one.name, unknown)) add(one.reason, one.name);
  }
  bool found = std::ranges::any_of(tried, [](const auto& one) { return one.first != kNoFile; });
  for (const Refused& one : refused) {  // the loader might find these
    if (one.name.find('/') == std::string::npos) add(one.reason, one.name);
  }
  std::string message = what + (found ? " cannot be loaded." : " was not found.");
  for (const auto& [reason, names] : tried) message += "\n  " + names + ": " + reason;
  if (!variable.empty() && setting(variable.c_str()) != nullptr) {
    message += "\n  " + variable + " is set to this path: correct or unset it.";
  } else if (!variable.empty()) {
    message += "\n  Set " + variable + " to the path of the library if it is installed elsewhere.";
  }
  throw MissingError(message);
}

std::string twin_of(const std::string& path) {
  struct Search {
    const std::string& path;
    std::string found;
    static std::string_view stem_of(std::string_view file) {
      std::string_view name = file.substr(file.rfind('/') + 1);
      return name.substr(0, name.find(".so"));
    }
  } search{path, ""};
  auto visit = [](dl_phdr_info* object, size_t, void* data) {
    auto& wanted = *static_cast<Search*>(data);
    if (Search::stem_of(object->dlpi_name) != Search::stem_of(wanted.path)) return 0;
    std::error_code unknown;
    bool same = std::filesystem::equivalent(object->dlpi_name, wanted.path, unknown);
    if (same || unknown) return 0;
    wanted.found = object->dlpi_name;
    return 1;
  };
  dl_iterate_phdr(visit, &search);
  return search.found;
}

void* Library::find(const char* symbol) const {
  return dlsym(handle_, symbol);
}

}  // namespace cclmark
