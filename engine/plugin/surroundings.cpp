#include "plugin/surroundings.hpp"

#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace cclmark::plugin {

namespace {

constexpr int kUnknown = -1;
constexpr std::size_t kIdBytes = 32;  // of a PCI bus id
constexpr int kMostLinks = 64;
constexpr unsigned kLinkActive = 1;
constexpr char kNccl[] = "libnccl.so.2", kRccl[] = "librccl.so.1";

/// A library that is loaded already; nullptr if it is not.
void* loaded(const char* name) {
  return dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
}

bool is_loaded(const char* name) {
  void* library = loaded(name);
  if (library != nullptr) {
    dlclose(library);
  }
  return library != nullptr;
}

template <typename Function>
Function symbol(void* library, const char* name) {
  return library != nullptr ? reinterpret_cast<Function>(dlsym(library, name)) : nullptr;
}

/// The function `name` of the library with this base, not one of a library that it depends on.
template <typename Function>
Function own_symbol(void* library, const void* base, const char* name) {
  const auto found = symbol<Function>(library, name);
  Dl_info place{};
  const bool is_own = found != nullptr &&
                      dladdr(reinterpret_cast<const void*>(found), &place) != 0 &&
                      place.dli_fbase == base;
  return is_own ? found : nullptr;
}

/// The name and the PCI bus id of this thread's device.
struct Device {
  char name[256];
  char bus_id[kIdBytes];
};

Device cuda_device() {
  Device device{};
  void* driver = loaded("libcuda.so.1");
  const auto current = symbol<int (*)(int*)>(driver, "cuCtxGetDevice");
  const auto name_of = symbol<int (*)(char*, int, int)>(driver, "cuDeviceGetName");
  const auto bus_id_of = symbol<int (*)(char*, int, int)>(driver, "cuDeviceGetPCIBusId");
  int number = 0;
  if (current != nullptr && name_of != nullptr && bus_id_of != nullptr && current(&number) == 0) {
    if (name_of(device.name, sizeof device.name, number) != 0) {
      device.name[0] = '\0';
    }
    if (bus_id_of(device.bus_id, sizeof device.bus_id, number) != 0) {
      device.bus_id[0] = '\0';
    }
  }
  if (driver != nullptr) {
    dlclose(driver);
  }
  return device;
}

/// hipGetDeviceProperties is not used: its structure differs between versions.
Device hip_device() {
  Device device{};
  void* runtime = nullptr;
  for (const char* name :
       {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"}) {
    runtime = runtime != nullptr ? runtime : loaded(name);
  }
  const auto current = symbol<int (*)(int*)>(runtime, "hipGetDevice");
  const auto name_of = symbol<int (*)(char*, int, int)>(runtime, "hipDeviceGetName");
  int number = 0;
  if (current == nullptr || name_of == nullptr || current(&number) != 0 ||
      name_of(device.name, sizeof device.name, number) != 0) {
    device.name[0] = '\0';
  }
  if (runtime != nullptr) {
    dlclose(runtime);
  }
  return device;
}

/// The number of active links of an opened device.
int count_links(void* nvml, void* device) {
  const auto state_of =
      symbol<int (*)(void*, unsigned, unsigned*)>(nvml, "nvmlDeviceGetNvLinkState");
  int active = 0;
  for (unsigned link = 0; state_of != nullptr && link < kMostLinks; ++link) {
    unsigned state = 0;
    if (state_of(device, link, &state) != 0) {
      break;  // behind the last link, or a device without links
    }
    active += state == kLinkActive ? 1 : 0;
  }
  return state_of != nullptr ? active : kUnknown;
}

int nvlinks_of(const char* bus_id) {
  void* nvml = *bus_id != '\0' ? dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL) : nullptr;
  const auto begin = symbol<int (*)()>(nvml, "nvmlInit_v2");
  const auto open = symbol<int (*)(const char*, void**)>(nvml, "nvmlDeviceGetHandleByPciBusId_v2");
  const auto end = symbol<int (*)()>(nvml, "nvmlShutdown");
  int links = kUnknown;
  if (begin != nullptr && open != nullptr && end != nullptr && begin() == 0) {
    void* device = nullptr;
    if (open(bus_id, &device) == 0) {
      links = count_links(nvml, device);
    }
    end();
  }
  if (nvml != nullptr) {
    dlclose(nvml);
  }
  return links;
}

/// Copies a name with its blanks as tables have them: one between words.
void copy_name(char* place, const char* name) {
  bool is_between = false;
  char* const begin = place;
  for (; *name != '\0'; ++name) {
    if (*name == ' ' || *name == '\t') {
      is_between = place != begin;
      continue;
    }
    if (is_between) {
      *place++ = ' ';
      is_between = false;
    }
    *place++ = *name;
  }
  *place = '\0';
}

/// A text of limited length, which is cut off.
class Text {
 public:
  Text(char* place, std::size_t bytes) : place_(place), bytes_(bytes) { *place_ = '\0'; }

  __attribute__((format(printf, 2, 3))) void add(const char* format, ...) {
    va_list values;
    va_start(values, format);
    const int added = std::vsnprintf(place_ + length_, bytes_ - length_, format, values);
    va_end(values);
    if (added > 0) {
      const auto wanted = length_ + static_cast<std::size_t>(added);
      length_ = wanted < bytes_ ? wanted : bytes_ - 1;
    }
  }

  /// Begins another part.
  void separate() {
    if (length_ != 0) {
      add("; ");
    }
  }

 private:
  char* const place_;
  const std::size_t bytes_;
  std::size_t length_ = 0;
};

void add_version(Text& text, const char* name, int version) {
  text.add("%s %d.%d.%d", name, version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

Library library_of(const void* caller) {
  Dl_info found{};
  if (dladdr(caller, &found) == 0 || found.dli_fname == nullptr) {
    return {"", 0};
  }
  void* library = loaded(found.dli_fname);
  library = library != nullptr ? library : dlopen(nullptr, RTLD_LAZY);  // the program itself
  const auto get_version = own_symbol<int (*)(int*)>(library, found.dli_fbase, "ncclGetVersion");
  const char* const slash = std::strrchr(found.dli_fname, '/');
  const bool is_rccl = std::strstr(slash != nullptr ? slash : found.dli_fname, "rccl") != nullptr ||
                       own_symbol<void*>(library, found.dli_fbase, "mscclLoadAlgo") != nullptr;
  int version = 0;
  const bool is_known = get_version != nullptr && get_version(&version) == 0;
  if (library != nullptr) {
    dlclose(library);
  }
  return is_known ? Library{is_rccl ? "rccl" : "nccl", version} : Library{"", 0};
}

bool is_rccl_alone() {
  const bool has_rccl = is_loaded(kRccl);
  return has_rccl && !is_loaded(kNccl);
}

int nvidia_version_loaded() {
  void* library = loaded(kNccl);
  const auto* function = symbol<const void*>(library, "ncclGetVersion");
  const Library found = function != nullptr ? library_of(function) : Library{"", 0};
  if (library != nullptr) {
    dlclose(library);
  }
  return std::strcmp(found.name, "nccl") == 0 && !is_loaded(kRccl) ? found.version : 0;
}

Surroundings surroundings_for(const TunerTable& table, const void* caller) {
  Surroundings found{};
  found.library = library_of(caller);
  const bool is_amd = std::strcmp(found.library.name, "rccl") == 0;
  const Device device = is_amd ? hip_device() : cuda_device();
  copy_name(found.device, device.name);
  found.nvlinks = table.nvlinks < 0 ? kUnknown : nvlinks_of(device.bus_id);
  return found;
}

void describe_differences(const TunerTable& table, const Surroundings& found, char* place,
                          std::size_t bytes) {
  Text text(place, bytes);
  const bool is_known = *found.library.name != '\0';
  if (std::strcmp(table.library, found.library.name) != 0 ||
      table.library_version != found.library.version) {
    if (is_known) {
      text.add("the library is ");
      add_version(text, found.library.name, found.library.version);
    } else {
      text.add("the library's version is unknown (it is linked into another file)");
    }
    text.add(", not ");
    add_version(text, table.library, table.library_version);
  }
  if (std::strcmp(table.device, found.device) != 0) {
    text.separate();
    if (*found.device != '\0') {
      text.add("the device is '%s', not '%s'", found.device, table.device);
    } else {
      text.add("the device's name is unknown, not '%s'", table.device);
    }
  }
  if (table.nvlinks >= 0 && table.nvlinks != found.nvlinks) {
    text.separate();
    if (found.nvlinks >= 0) {
      text.add("the device has %d NVLinks, not %d", found.nvlinks, table.nvlinks);
    } else {
      text.add("the number of the device's NVLinks is unknown, not %d", table.nvlinks);
    }
  }
}

}  // namespace cclmark::plugin
