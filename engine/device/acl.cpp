// Huawei's Ascend devices through the ACL runtime of CANN (libascendcl.so), loaded when asked for:
// nothing of CANN is needed to build. No compiler of kernels is known, so the host fills and
// checks buffers.

#include "device/acl.hpp"

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "core/error.hpp"
#include "core/library.hpp"
#include "device/compiled_kernels.hpp"
#include "device/device.hpp"

namespace cclmark {

const char* const kCannAdvice =
    "\n  CANN's libraries require its environment variables: source set_env.sh of the installation "
    "(/usr/local/Ascend/ascend-toolkit/set_env.sh).";

std::vector<std::string> cann_files(const std::string& name) {
  std::vector<std::string> files{name};
  for (const char* variable : {"ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"}) {
    const char* home = setting(variable);
    if (home != nullptr) files.push_back(std::string(home) + "/lib64/" + name);
  }
  files.push_back("/usr/local/Ascend/ascend-toolkit/latest/lib64/" + name);
  files.push_back("/usr/local/Ascend/cann/lib64/" + name);
  return files;
}

namespace {

using aclError = int;

constexpr aclError kRepeatedInitialization = 100002;
constexpr aclError kUnsupported[] = {200001, 200006, 207000};
constexpr aclError kOutOfMemory[] = {200000, 207001};
constexpr int kHugePagesFirst = 0;
constexpr uint32_t kEventWithTime = 0x8;
constexpr uint64_t kStopOnFailure = 1;
constexpr int kStreamComplete = 0;
constexpr int kPackageOfRuntime = 1;
constexpr int kPackageOfHccl = 3;

enum CopyKind : int { kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice };
enum MemoryKind : int { kDdr, kHbm };
enum Attribute : int { kAiCores = 101, kL2CacheBytes = 302 };
enum OlderAttribute : int { kOlderAiCores = 0, kOlderL2Bytes = 2 };

/// aclCANNPackageVersion.
struct PackageVersion {
  char version[128];
  char parts[4][64];
  char reserved[128];
};
static_assert(sizeof(PackageVersion) == 512);

/// The runtime's texts are of the thread's last failure and often missing: its codes are few.
const char* text_of(aclError code) {
  switch (code) {
    case 100000:
      return "invalid parameter";
    case 100001:
      return "not initialized";
    case 107001:
      return "invalid device";
    case 107002:
      return "no context on this thread";
    case 107003:
      return "the stream belongs to another context";
    case 207000:
      return "not supported";
    case 207001:
      return "out of device memory";
    case 507033:
      return "device setup error";
    case 507899:
      return "driver error";
    default:
      return "";
  }
}

/// The part of the runtime that is used, resolved once; not initialized yet.
struct Functions {
  Library library = open();

#define CCLMARK_ACL(name, symbol, ...) \
  aclError (*name)(__VA_ARGS__) = library.require<aclError(__VA_ARGS__)>(symbol)
// What versions lack, and what only describes.
#define CCLMARK_ACL_OPTIONAL(result, name, symbol, ...) \
  result (*name)(__VA_ARGS__) = library.optional<result(__VA_ARGS__)>(symbol)
  CCLMARK_ACL(init, "aclInit", const char*);
  CCLMARK_ACL(device_count, "aclrtGetDeviceCount", uint32_t*);
  CCLMARK_ACL(set_device, "aclrtSetDevice", int32_t);
  CCLMARK_ACL(reset_device, "aclrtResetDevice", int32_t);
  CCLMARK_ACL(get_context, "aclrtGetCurrentContext", void**);
  CCLMARK_ACL(set_context, "aclrtSetCurrentContext", void*);
  CCLMARK_ACL(memory_info, "aclrtGetMemInfo", int, size_t*, size_t*);
  CCLMARK_ACL(allocate, "aclrtMalloc", void**, size_t, int);
  CCLMARK_ACL(release, "aclrtFree", void*);
  CCLMARK_ACL(allocate_host, "aclrtMallocHost", void**, size_t);
  CCLMARK_ACL(release_host, "aclrtFreeHost", void*);
  CCLMARK_ACL(copy, "aclrtMemcpy", void*, size_t, const void*, size_t, int);
  CCLMARK_ACL(copy_async, "aclrtMemcpyAsync", void*, size_t, const void*, size_t, int, void*);
  CCLMARK_ACL(fill_async, "aclrtMemsetAsync", void*, size_t, int32_t, size_t, void*);
  CCLMARK_ACL(create_stream, "aclrtCreateStream", void**);
  CCLMARK_ACL(destroy_stream, "aclrtDestroyStream", void*);
  CCLMARK_ACL(synchronize_stream, "aclrtSynchronizeStream", void*);
  CCLMARK_ACL(query_stream, "aclrtStreamQuery", void*, int*);
  CCLMARK_ACL(create_event, "aclrtCreateEventWithFlag", void**, uint32_t);
  CCLMARK_ACL(destroy_event, "aclrtDestroyEvent", void*);
  CCLMARK_ACL(record_event, "aclrtRecordEvent", void*, void*);
  CCLMARK_ACL(elapsed, "aclrtEventElapsedTime", float*, void*, void*);
  CCLMARK_ACL_OPTIONAL(aclError, set_failure_mode, "aclrtSetStreamFailureMode", void*, uint64_t);
  CCLMARK_ACL_OPTIONAL(aclError, can_access_peer, "aclrtDeviceCanAccessPeer", int32_t*, int32_t,
                       int32_t);
  CCLMARK_ACL_OPTIONAL(aclError, enable_peer_access, "aclrtDeviceEnablePeerAccess", int32_t,
                       uint32_t);
  CCLMARK_ACL_OPTIONAL(aclError, disable_peer_access, "aclrtDeviceDisablePeerAccess", int32_t);
  CCLMARK_ACL_OPTIONAL(aclError, call_host, "aclrtLaunchHostFunc", void*, void (*)(void*), void*);
  CCLMARK_ACL_OPTIONAL(const char*, soc_name, "aclrtGetSocName");
  CCLMARK_ACL_OPTIONAL(aclError, device_info, "aclrtGetDeviceInfo", uint32_t, int, int64_t*);
  CCLMARK_ACL_OPTIONAL(aclError, older_device_info, "aclGetDeviceCapability", uint32_t, int,
                       int64_t*);
  CCLMARK_ACL_OPTIONAL(const char*, recent_error, "aclGetRecentErrMsg");
  CCLMARK_ACL_OPTIONAL(aclError, version_text, "aclsysGetVersionStr", char*, char*);
  CCLMARK_ACL_OPTIONAL(aclError, package_version, "aclsysGetCANNVersion", int, PackageVersion*);
#undef CCLMARK_ACL
#undef CCLMARK_ACL_OPTIONAL

  void check(aclError code, const char* call) const {
    if (code == 0) [[likely]]
      return;
    for (aclError known : kOutOfMemory) {
      if (code == known) throw OutOfMemoryError(describe(call, code));
    }
    for (aclError known : kUnsupported) {
      if (code == known) throw UnsupportedError(describe(call, code));
    }
    throw Error(describe(call, code));
  }

  std::string describe(std::string_view call, aclError code) const {
    std::string text = text_of(code), recent = last_words();
    if (!recent.empty()) text += (text.empty() ? "" : ": ") + recent;
    return Error::describe(call, code, text);
  }

  /// Of a package of CANN, by its name and by its number of old; empty where nothing tells.
  std::string version_of(std::string package, int number) const {
    PackageVersion told{};
    bool known = version_text != nullptr && version_text(package.data(), told.version) == 0;
    if (!known && package_version != nullptr) known = package_version(number, &told) == 0;
    return known ? std::string(told.version, strnlen(told.version, sizeof(told.version))) : "";
  }

  /// One line: the runtime's texts are pages.
  std::string last_words() const {
    const char* text = recent_error != nullptr ? recent_error() : nullptr;
    std::string words;
    for (; text != nullptr && *text != '\0'; ++text) {
      bool blank = std::strchr(" \t\r\n", *text) != nullptr;
      if (!blank || (!words.empty() && words.back() != ' ')) words += blank ? ' ' : *text;
    }
    while (!words.empty() && words.back() == ' ') words.pop_back();
    return words;
  }

 private:
  static Library open() {
    constexpr const char* kVariable = "CCLMARK_ASCENDCL_LIBRARY";
    const char* chosen = setting(kVariable);
    try {
      return Library::open(
          "the ACL runtime (libascendcl)",
          chosen != nullptr ? std::vector<std::string>{chosen} : cann_files("libascendcl.so"),
          kVariable);
    } catch (const MissingError& error) {
      throw MissingError(error.what() + std::string(kCannAdvice));
    }
  }
};

const Functions& functions() {
  static const Functions loaded;
  return loaded;
}

/// CANN without a driver is what a build machine has, and a container that was given no device.
[[noreturn]] void miss_driver(const Functions& acl, const char* call, aclError code) {
  throw MissingError(
      acl.describe(call, code) + ". " + acl.library.path() +
      " is installed, but finds no Ascend driver or no device.\n  Install the driver (npu-smi info "
      "shows whether it works). In a container, pass the devices (--device /dev/davinci0 --device "
      "/dev/davinci_manager --device /dev/devmm_svm --device /dev/hisi_hdc) and the driver's "
      "libraries in /usr/local/Ascend/driver. The user must be in the group that owns the devices "
      "(HwHiAiUser).");
}

const Functions& runtime() {
  static const Functions& ready = [&]() -> const Functions& {
    const Functions& acl = functions();
    aclError code = acl.init(nullptr);
    // torch may have initialised it before.
    if (code != 0 && code != kRepeatedInitialization) miss_driver(acl, "aclInit", code);
    return acl;
  }();
  return ready;
}

/// The runtime's allocations that are used in this process: a copy must specify its direction.
class Allocations {
 public:
  enum class Kind : uint8_t { device, pinned, foreign };

  void add(const void* memory, size_t bytes, Kind kind) {
    std::lock_guard guard(lock_);
    ranges_[static_cast<const std::byte*>(memory)] = {bytes, kind};
  }
  void remove(const void* memory) {
    std::lock_guard guard(lock_);
    ranges_.erase(static_cast<const std::byte*>(memory));
  }
  Kind kind_of(const void* memory) {
    auto address = static_cast<const std::byte*>(memory);
    std::lock_guard guard(lock_);
    auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) return Kind::foreign;
    auto [first, range] = *std::prev(after);
    return address < first + range.bytes ? range.kind : Kind::foreign;
  }

 private:
  struct Range {
    size_t bytes;
    Kind kind;
  };
  std::mutex lock_;
  std::map<const std::byte*, Range> ranges_;
};

Allocations& allocations() {
  static Allocations known;
  return known;
}

bool reach(const Functions& acl, int from, int to) {
  if (acl.can_access_peer == nullptr) return false;
  int32_t possible = 0;
  acl.check(acl.can_access_peer(&possible, from, to), "aclrtDeviceCanAccessPeer");
  return possible != 0;
}

MissingError no_kernels() {
  return no_compiler("Ascend", "they are no Ascend C, which CANN's aclrtc compiles");
}

class AclDevice final : public Device {
 public:
  /// Delegates, so that the device is given back when what comes after it fails.
  explicit AclDevice(int index) : AclDevice(runtime(), index) {
    acl_.check(acl_.get_context(&context_), "aclrtGetCurrentContext");
    describe();
  }

  ~AclDevice() override { acl_.reset_device(info_.index); }

  const DeviceInfo& info() const override { return info_; }
  size_t free_memory_bytes() const override { return memory().first; }
  void activate() override { acl_.check(acl_.set_context(context_), "aclrtSetCurrentContext"); }

  void* allocate(size_t bytes) override {
    void* memory = nullptr;
    bytes = bytes == 0 ? 1 : bytes;
    acl_.check(acl_.allocate(&memory, bytes, kHugePagesFirst), "aclrtMalloc");
    allocations().add(memory, bytes, Allocations::Kind::device);
    return memory;
  }
  void release(void* memory) noexcept override {
    allocations().remove(memory);
    acl_.release(memory);
  }

  void adopt(void* memory, size_t bytes) override {
    allocations().add(memory, bytes, Allocations::Kind::device);
  }
  void disown(void* memory) noexcept override { allocations().remove(memory); }

  void copy_to_host(void* host, const void* from, size_t bytes) override {
    if (bytes == 0) return;
    acl_.check(acl_.copy(host, bytes, from, bytes, kDeviceToHost), "aclrtMemcpy");
  }
  void copy_from_host(void* to, const void* host, size_t bytes) override {
    if (bytes == 0) return;
    acl_.check(acl_.copy(to, bytes, host, bytes, kHostToDevice), "aclrtMemcpy");
  }
  void copy_async(void* to, const void* from, size_t bytes, void* stream) override {
    if (bytes == 0) return;
    using Kind = Allocations::Kind;
    Kind source = allocations().kind_of(from), target = allocations().kind_of(to);
    bool from_device = source == Kind::device, to_device = target == Kind::device;
    CopyKind kind = from_device ? (to_device ? kDeviceToDevice : kDeviceToHost)
                                : (to_device ? kHostToDevice : kHostToHost);
    if (kind == kHostToHost || source == Kind::foreign || target == Kind::foreign) {
      // No stream takes these in every release of CANN: they are copied here when their turn comes.
      acl_.check(acl_.synchronize_stream(stream), "aclrtSynchronizeStream");
      acl_.check(acl_.copy(to, bytes, from, bytes, kind), "aclrtMemcpy");
      return;
    }
    acl_.check(acl_.copy_async(to, bytes, from, bytes, kind, stream), "aclrtMemcpyAsync");
  }
  void fill_bytes(void* memory, int byte, size_t bytes, void* stream) override {
    if (bytes == 0) return;
    acl_.check(acl_.fill_async(memory, bytes, byte, bytes, stream), "aclrtMemsetAsync");
  }

  void* allocate_pinned(size_t bytes) override {
    void* memory = nullptr;
    bytes = bytes == 0 ? 1 : bytes;
    acl_.check(acl_.allocate_host(&memory, bytes), "aclrtMallocHost");
    allocations().add(memory, bytes, Allocations::Kind::pinned);
    return memory;
  }
  void release_pinned(void* memory) noexcept override {
    allocations().remove(memory);
    acl_.release_host(memory);
  }

  bool reaches(const Device& peer) const override {
    return reach(acl_, info_.index, peer.info().index);
  }
  void open_access(Device& peer) override {
    if (acl_.enable_peer_access == nullptr) {
      throw UnsupportedError("this ACL runtime has no aclrtDeviceEnablePeerAccess");
    }
    activate();
    aclError code = acl_.enable_peer_access(peer.info().index, 0);
    if (code != 0) throw UnsupportedError(acl_.describe("aclrtDeviceEnablePeerAccess", code));
  }
  void close_access(Device& peer) override {
    if (acl_.disable_peer_access == nullptr) return;
    activate();
    acl_.check(acl_.disable_peer_access(peer.info().index), "aclrtDeviceDisablePeerAccess");
  }
  void copy_between(void*, Device&, const void*, Device&, size_t, void*) override {
    throw UnsupportedError("copies between devices require peer access with the ACL runtime");
  }

  void* allocate_shareable(size_t) override { refuse_sharing(); }
  SharedMemory share(void*) override { refuse_sharing(); }
  void* open_shared(const SharedMemory&) override { refuse_sharing(); }
  void close_shared(void*) noexcept override {}

  bool synchronous() const override { return false; }
  void* create_stream() override {
    void* stream = nullptr;
    acl_.check(acl_.create_stream(&stream), "aclrtCreateStream");
    // By default a stream goes on after what failed, and looks as if all had been done.
    if (acl_.set_failure_mode != nullptr) acl_.set_failure_mode(stream, kStopOnFailure);
    return stream;
  }
  void destroy_stream(void* stream) noexcept override { acl_.destroy_stream(stream); }
  bool idle(void* stream) override {
    int state = kStreamComplete;
    acl_.check(acl_.query_stream(stream, &state), "aclrtStreamQuery");
    return state == kStreamComplete;
  }

  void* create_event() override {
    void* event = nullptr;
    acl_.check(acl_.create_event(&event, kEventWithTime), "aclrtCreateEventWithFlag");
    return event;
  }
  void destroy_event(void* event) noexcept override { acl_.destroy_event(event); }
  void record(void* event, void* stream) override {
    acl_.check(acl_.record_event(event, stream), "aclrtRecordEvent");
  }
  double elapsed_s(void* start, void* end) override {
    float ms = 0;
    acl_.check(acl_.elapsed(&ms, start, end), "aclrtEventElapsedTime");
    return static_cast<double>(ms) * 1e-3;
  }

  std::string no_graphs() const override { return "graphs are not supported with the ACL runtime"; }
  void begin_capture(void*) override {
    throw UnsupportedError(no_graphs() + ": use --timing throughput or blocking");
  }
  void* end_capture(void*) override { return nullptr; }
  void abandon_capture(void*) noexcept override {}
  void launch_graph(void*, void*) override {}
  void destroy_graph(void*) noexcept override {}

  const Kernel& kernel(const char*) override { throw no_kernels(); }
  void launch(const Kernel&, void*, size_t, void*) override { throw no_kernels(); }
  void launch_grid(const Kernel&, void*, const Grid&, void*) override { throw no_kernels(); }
  void wait_for_flag(const uint32_t*, uint32_t, void*) override {
    throw UnsupportedError("streams of the ACL runtime cannot wait for a word of host memory");
  }
  void call_host(void (*function)(void*), void* argument, void* stream) override {
    if (acl_.call_host == nullptr) {
      throw UnsupportedError("this ACL runtime has no aclrtLaunchHostFunc");
    }
    acl_.check(acl_.call_host(stream, function, argument), "aclrtLaunchHostFunc");
  }

 private:
  AclDevice(const Functions& acl, int index) : acl_(acl) {
    acl_.check(acl_.set_device(index), "aclrtSetDevice");
    info_.index = index;
  }

  [[noreturn]] static void refuse_sharing() {
    throw UnsupportedError(
        "sharing memory of Ascend devices between processes is not supported: use one process for "
        "all devices");
  }

  /// Free and total bytes, of whichever kind of memory this device has.
  std::pair<size_t, size_t> memory() const {
    size_t free = 0, total = 0;
    acl_.check(acl_.memory_info(kHbm, &free, &total), "aclrtGetMemInfo");
    if (total == 0) acl_.check(acl_.memory_info(kDdr, &free, &total), "aclrtGetMemInfo");
    return {free, total};
  }

  /// Zero if the runtime does not report it.
  size_t attribute(Attribute which, OlderAttribute older) const {
    auto index = static_cast<uint32_t>(info_.index);
    int64_t value = 0;
    bool told = acl_.device_info != nullptr && acl_.device_info(index, which, &value) == 0;
    if (!told && acl_.older_device_info != nullptr) acl_.older_device_info(index, older, &value);
    return value > 0 ? static_cast<size_t>(value) : 0;
  }

  void describe() {
    const char* name = acl_.soc_name != nullptr ? acl_.soc_name() : nullptr;
    info_.runtime = "acl";
    info_.name = name != nullptr ? name : "Ascend";
    info_.multiprocessors = static_cast<int>(attribute(kAiCores, kOlderAiCores));
    info_.cache_bytes = attribute(kL2CacheBytes, kOlderL2Bytes);
    info_.memory_bytes = memory().second;
    info_.driver_version = acl_.version_of("runtime", kPackageOfRuntime);
    info_.library_path = acl_.library.path();
  }

  const Functions& acl_;
  void* context_ = nullptr;
  DeviceInfo info_;
};

}  // namespace

std::string hccl_package_version() {
  try {
    std::string version = functions().version_of("hccl", kPackageOfHccl);
    return version.empty() ? "unknown" : version;
  } catch (const MissingError&) {
    return "unknown";
  }
}

std::string recent_acl_error() {
  try {
    return functions().last_words();
  } catch (const MissingError&) {
    return "";
  }
}

int acl_device_count() {
  const Functions& acl = runtime();
  uint32_t count = 0;
  aclError code = acl.device_count(&count);
  if (code != 0) miss_driver(acl, "aclrtGetDeviceCount", code);
  return static_cast<int>(count);
}

bool acl_devices_reach(int from, int to) {
  return reach(runtime(), from, to);
}

std::unique_ptr<Device> open_acl_device(int index) {
  return std::make_unique<AclDevice>(index);
}

}  // namespace cclmark
