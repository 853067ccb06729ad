// Devices of every runtime that is shaped like CUDA's runtime API: one table row each, one
// implementation for all. Kernels are compiled where the vendor has a compiler with NVRTC's
// interface; elsewhere data are filled and checked on the host.

#include "device/vendor_runtime.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "core/library.hpp"
#include "device/compiled_kernels.hpp"

namespace cclmark {
namespace {

using Status = int;

// Numbers that the runtimes took over from CUDA. "Not ready" is recognised by its name as well:
// it is the one that is met all the time, and not all vendors publish theirs.
constexpr Status kInvalidValue = 1;
constexpr Status kOutOfMemory = 2;
constexpr Status kNoDevice = 100;
constexpr Status kNotReady = 600;
constexpr Status kPeerAccessAlreadyEnabled = 704;
constexpr Status kPeerAccessNotEnabled = 705;
constexpr Status kNotSupported = 801;
constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventDefault = 0;
constexpr unsigned kWaitValueAtLeast = 0;
constexpr unsigned kHostRegisterPortableMapped = 3;
constexpr unsigned kWholeWord = 0xffffffff;
constexpr int kCaptureThreadLocal = 1;
constexpr unsigned kSharedBytesByDefault = 48 << 10;
constexpr int kComputeMajor = 75,
              kComputeMinor = 76;  // numbers of attributes, where they are CUDA's
constexpr int kUnknown = -1;

/// The values of a copy's direction argument.
struct Directions {
  int to_device = 1;
  int to_host = 2;
  int any = 4;
};

/// Functions without the prefix; nullptr where the runtime has none.
struct Names {
  const char* error_string = "GetErrorString";
  const char* last_error = "GetLastError";
  const char* allocate_host = "HostAlloc";
  const char* release_host = "FreeHost";
  const char* copy_async = "MemcpyAsync";
  const char* create_stream = "StreamCreateWithFlags";
  const char* destroy_stream = "StreamDestroy";
  const char* query_stream = "StreamQuery";
  const char* create_event = "EventCreateWithFlags";
  const char* destroy_event = "EventDestroy";
  const char* record_event = "EventRecord";
  const char* elapsed = "EventElapsedTime";  ///< milliseconds
  const char* elapsed_us = nullptr;          ///< microseconds: preferred where it is there
  const char* can_access_peer = "DeviceCanAccessPeer";
  const char* call_host = "LaunchHostFunc";
};

/// Where arguments stand in the functions that differ.
enum class Order {
  cuda,      ///< copy: direction, stream; elapsed: result, start, end
  cambricon  ///< copy: queue, direction; elapsed: start, end, result; no flags for handles
};

/// Names of files; nullptr where there are no more.
using Files = std::array<const char*, 5>;

/// How a vendor's kernels are compiled, loaded and launched. Without names of files, the functions
/// are the runtime's own.
struct KernelTools {
  CompilerKind compiler;
  Files compiler_files;
  const char* prefix;  ///< of the functions of modules
  const char* launch;
  Files driver_files = {};  ///< with the functions of modules
  /// Number of the attribute that tells how many multiprocessors there are.
  int processors_attribute = 16;
  /// What chooses the device's architecture, before its two digits; nullptr: the compiler chooses.
  const char* architecture_option = nullptr;
};

constexpr KernelTools kHipKernels{
    .compiler = {.what = "hipRTC",
                 .prefix = "hiprtc",
                 .variable = "CCLMARK_HIPRTC_LIBRARY",
                 .images = {"Code"}},
    .compiler_files = {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so"},
    .prefix = "hip",
    .launch = "hipModuleLaunchKernel",
    .processors_attribute = 63};
constexpr KernelTools kMacaKernels{.compiler = {.what = "mcRTC",
                                                .prefix = "mcrtc",
                                                .variable = "CCLMARK_MCRTC_LIBRARY",
                                                .images = {"Bitcode", "Code"}},
                                   .compiler_files = {},
                                   .prefix = "mc",
                                   .launch = "mcModuleLaunchKernel"};
constexpr KernelTools kMusaKernels{
    .compiler = {.what = "MTRTC",
                 .prefix = "mtrtc",
                 .variable = "CCLMARK_MTRTC_LIBRARY",
                 .images = {"FatBin", "MUSA"}},
    .compiler_files = {"libmtrtc.so", "libmtrtc.so.5", "libmtrtc.so.4"},
    .prefix = "mu",
    .launch = "muLaunchKernel",
    .driver_files = {"libmusa.so.1", "libmusa.so.4", "libmusa.so"},
    .architecture_option = "--gpu-architecture=mp_"};
constexpr KernelTools kCudartKernels{
    .compiler = {.what = "a compiler with the name of NVRTC (libnvrtc)",
                 .prefix = "nvrtc",
                 .variable = "CCLMARK_NVRTC_LIBRARY",
                 .images = {"CUBIN", "PTX"}},
    .compiler_files = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                       "libnvrtc.so.10.2"},
    .prefix = "cu",
    .launch = "cuLaunchKernel",
    .driver_files = {"libcuda.so.1", "libcuda.so"}};

struct Row {
  std::string_view name;
  const char* what;
  const char* prefix;
  const char* variable;
  std::vector<const char*> sonames;
  Names names = {};
  Directions directions = {};
  Order order = Order::cuda;
  /// Number of the attribute that tells the bytes of the last-level cache.
  int cache_attribute = kUnknown;
  unsigned ipc_flags = 1;
  /// How the version is written as one number: this much for a major, this much for a minor.
  int version_major = 0, version_minor = 0;
  const KernelTools* kernels = nullptr;
};

const std::array<Row, kVendorRuntimes>& rows() {
  static const std::array<Row, kVendorRuntimes> kRows = {{
      {.name = "hip",
       .what = "AMD's runtime (libamdhip64)",
       .prefix = "hip",
       .variable = "CCLMARK_HIP_LIBRARY",
       .sonames = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so",
                   "/opt/rocm/lib/libamdhip64.so"},
       .names = {.allocate_host = "HostMalloc", .release_host = "HostFree"},
       .cache_attribute = 19,
       .version_major = 10000000,
       .version_minor = 100000,
       .kernels = &kHipKernels},
      {.name = "maca",
       .what = "MetaX's runtime (libmcruntime)",
       .prefix = "mc",
       .variable = "CCLMARK_MACA_LIBRARY",
       .sonames = {"libmcruntime.so", "/opt/maca/lib/libmcruntime.so",
                   "/opt/maca/lib64/libmcruntime.so"},
       .names = {.allocate_host = "MallocHost"},
       .cache_attribute = 18,
       .kernels = &kMacaKernels},
      {.name = "musa",
       .what = "Moore Threads' runtime (libmusart)",
       .prefix = "musa",
       .variable = "CCLMARK_MUSA_LIBRARY",
       .sonames = {"libmusart.so", "libmusart.so.5", "libmusart.so.4",
                   "/usr/local/musa/lib/libmusart.so"},
       .names = {.allocate_host = "MallocHost"},
       .cache_attribute = 38,
       .kernels = &kMusaKernels},
      {.name = "tops",
       .what = "Enflame's runtime (libtopsrt)",
       .prefix = "tops",
       .variable = "CCLMARK_TOPS_LIBRARY",
       .sonames = {"libtopsrt.so", "libtopsrt.so.1", "/opt/tops/lib/libtopsrt.so"},
       .names = {.allocate_host = "HostMalloc", .release_host = "HostFree"},
       .ipc_flags = 0},
      {.name = "cudart",
       .what = "a runtime with the name of CUDA's (libcudart)",
       .prefix = "cuda",
       .variable = "CCLMARK_CUDART_LIBRARY",
       .sonames = {"/usr/local/corex/lib/libcudart.so", "/usr/local/corex/lib64/libcudart.so",
                   "/usr/local/xpu/so/libcudart.so", "libcudart.so", "libcudart.so.12",
                   "libcudart.so.11.0", "libcudart.so.10.2",
                   "/opt/dtk/cuda/cuda/lib64/libcudart.so", "/opt/dtk/cuda/lib64/libcudart.so",
                   "/usr/local/cuda/lib64/libcudart.so"},
       .cache_attribute = 38,
       .version_major = 1000,
       .version_minor = 10,
       .kernels = &kCudartKernels},
      {.name = "cnrt",
       .what = "Cambricon's runtime (libcnrt)",
       .prefix = "cnrt",
       .variable = "CCLMARK_CNRT_LIBRARY",
       .sonames = {"libcnrt.so", "/usr/local/neuware/lib64/libcnrt.so"},
       .names = {.error_string = "GetErrorStr",
                 .allocate_host = "HostMalloc",
                 .copy_async = "MemcpyAsync_V2",
                 .create_stream = "QueueCreate",
                 .destroy_stream = "QueueDestroy",
                 .query_stream = "QueueQuery",
                 .create_event = "NotifierCreate",
                 .destroy_event = "NotifierDestroy",
                 .record_event = "PlaceNotifier",
                 .elapsed = "NotifierElapsedTime",
                 .elapsed_us = "NotifierDuration",
                 .can_access_peer = "GetPeerAccessibility",
                 .call_host = "InvokeHostFunc"},
       .directions = {.to_device = 0, .to_host = 2, .any = 5},
       .order = Order::cambricon,
       .cache_attribute = 0x301},
      {.name = "tang",
       .what = "Sunrise's runtime (libtangrt_shared)",
       .prefix = "tang",
       .variable = "CCLMARK_TANG_LIBRARY",
       .sonames = {"libtangrt_shared.so",
                   "/usr/local/tangrt/targets/linux-x86_64/lib/libtangrt_shared.so"},
       .names = {.allocate_host = "MallocHost"}},
  }};
  return kRows;
}

/// A function that a runtime may lack: its absence is a missing ability, reported by name.
template <typename... Arguments>
struct Optional {
  std::string symbol;
  Status (*function)(Arguments...);
  explicit operator bool() const { return function != nullptr; }
  Status operator()(Arguments... arguments) const {
    if (function == nullptr) {
      throw UnsupportedError("this runtime has no " + symbol);
    }
    return function(arguments...);
  }
};

/// A runtime's functions, resolved once.
struct Vendor {
  explicit Vendor(const Row& which)
      : row(which), library(Library::open(which.what, candidates(which), which.variable)) {}

  const Row& row;
  Library library;

#define CCLMARK_VENDOR(name, symbol, ...) \
  Status (*name)(__VA_ARGS__) = require<Status(__VA_ARGS__)>(symbol)
#define CCLMARK_VENDOR_OPTIONAL(name, symbol, ...) \
  Optional<__VA_ARGS__> name = optional<__VA_ARGS__>(symbol)
  CCLMARK_VENDOR(device_count, "GetDeviceCount", int*);
  CCLMARK_VENDOR(set_device, "SetDevice", int);
  CCLMARK_VENDOR(allocate, "Malloc", void**, size_t);
  CCLMARK_VENDOR(release, "Free", void*);
  CCLMARK_VENDOR(copy, "Memcpy", void*, const void*, size_t, int);
  CCLMARK_VENDOR(fill_async, "MemsetAsync", void*, int, size_t, void*);
  CCLMARK_VENDOR(memory_info, "MemGetInfo", size_t*, size_t*);
  CCLMARK_VENDOR(destroy_stream, row.names.destroy_stream, void*);
  CCLMARK_VENDOR(query_stream, row.names.query_stream, void*);
  CCLMARK_VENDOR(destroy_event, row.names.destroy_event, void*);
  CCLMARK_VENDOR(record_event, row.names.record_event, void*, void*);
  // The four whose arguments stand in another order in some runtimes: see the methods below.
  void* copy_async_ = require<void>(row.names.copy_async);
  void* create_stream_ = require<void>(row.names.create_stream);
  void* create_event_ = require<void>(row.names.create_event);
  void* elapsed_us_ = row.names.elapsed_us == nullptr
                          ? nullptr
                          : library.optional<void>(symbol_of(row.names.elapsed_us).c_str());
  void* elapsed_ = elapsed_us_ != nullptr
                       ? elapsed_us_
                       : library.optional<void>(symbol_of(row.names.elapsed).c_str());

  const char* (*error_string)(Status) = require<const char*(Status)>(row.names.error_string);
  const char* (*error_name)(Status) =
      library.optional<const char*(Status)>(symbol_of("GetErrorName").c_str());
  CCLMARK_VENDOR_OPTIONAL(last_error, row.names.last_error);
  CCLMARK_VENDOR_OPTIONAL(allocate_host, row.names.allocate_host, void**, size_t, unsigned);
  CCLMARK_VENDOR_OPTIONAL(release_host, row.names.release_host, void*);
  CCLMARK_VENDOR_OPTIONAL(properties, "GetDeviceProperties", void*, int);
  CCLMARK_VENDOR_OPTIONAL(pci_bus_id, "DeviceGetPCIBusId", char*, int, int);
  CCLMARK_VENDOR_OPTIONAL(attribute, "DeviceGetAttribute", int*, int, int);
  CCLMARK_VENDOR_OPTIONAL(version, "RuntimeGetVersion", int*);
  CCLMARK_VENDOR_OPTIONAL(can_access_peer, row.names.can_access_peer, int*, int, int);
  CCLMARK_VENDOR_OPTIONAL(enable_peer_access, "DeviceEnablePeerAccess", int, unsigned);
  CCLMARK_VENDOR_OPTIONAL(disable_peer_access, "DeviceDisablePeerAccess", int);
  CCLMARK_VENDOR_OPTIONAL(copy_peer_async, "MemcpyPeerAsync", void*, int, const void*, int, size_t,
                          void*);
  CCLMARK_VENDOR_OPTIONAL(ipc_get, "IpcGetMemHandle", MemoryHandle*, void*);
  CCLMARK_VENDOR_OPTIONAL(ipc_open, "IpcOpenMemHandle", void**, MemoryHandle, unsigned);
  CCLMARK_VENDOR_OPTIONAL(ipc_close, "IpcCloseMemHandle", void*);
  CCLMARK_VENDOR_OPTIONAL(wait_value, "StreamWaitValue32", void*, void*, uint32_t, unsigned,
                          uint32_t);
  CCLMARK_VENDOR_OPTIONAL(write_value, "StreamWriteValue32", void*, void*, uint32_t, unsigned);
  CCLMARK_VENDOR_OPTIONAL(call_host, row.names.call_host, void*, void (*)(void*), void*);
  CCLMARK_VENDOR_OPTIONAL(wait_event, "StreamWaitEvent", void*, void*, unsigned);
  CCLMARK_VENDOR_OPTIONAL(register_host, "HostRegister", void*, size_t, unsigned);
  CCLMARK_VENDOR_OPTIONAL(unregister_host, "HostUnregister", void*);
  CCLMARK_VENDOR_OPTIONAL(device_pointer, "HostGetDevicePointer", void**, void*, unsigned);
  CCLMARK_VENDOR_OPTIONAL(begin_capture, "StreamBeginCapture", void*, int);
  CCLMARK_VENDOR_OPTIONAL(end_capture, "StreamEndCapture", void*, void**);
  CCLMARK_VENDOR_OPTIONAL(instantiate, "GraphInstantiateWithFlags", void**, void*,
                          unsigned long long);
  CCLMARK_VENDOR_OPTIONAL(launch_graph, "GraphLaunch", void*, void*);
  CCLMARK_VENDOR_OPTIONAL(destroy_graph, "GraphDestroy", void*);
  CCLMARK_VENDOR_OPTIONAL(destroy_executable, "GraphExecDestroy", void*);
#undef CCLMARK_VENDOR
#undef CCLMARK_VENDOR_OPTIONAL

  Status copy_async(void* to, const void* from, size_t bytes, void* stream) const {
    int any = row.directions.any;
    if (row.order == Order::cambricon) {
      return as<Status(void*, const void*, size_t, void*, int)>(copy_async_)(to, from, bytes,
                                                                             stream, any);
    }
    return as<Status(void*, const void*, size_t, int, void*)>(copy_async_)(to, from, bytes, any,
                                                                           stream);
  }
  Status create_stream(void** stream) const {
    if (row.order == Order::cambricon) return as<Status(void**)>(create_stream_)(stream);
    return as<Status(void**, unsigned)>(create_stream_)(stream, kStreamNonBlocking);
  }
  Status create_event(void** event) const {
    if (row.order == Order::cambricon) return as<Status(void**)>(create_event_)(event);
    return as<Status(void**, unsigned)>(create_event_)(event, kEventDefault);
  }
  /// Seconds; NaN where the runtime does not time its events.
  double elapsed_s(void* start, void* end) const {
    if (elapsed_ == nullptr) return std::numeric_limits<double>::quiet_NaN();
    float time = 0;
    bool cambricon = row.order == Order::cambricon;
    Status code = cambricon ? as<Status(void*, void*, float*)>(elapsed_)(start, end, &time)
                            : as<Status(float*, void*, void*)>(elapsed_)(&time, start, end);
    if (code == kNotSupported) return std::numeric_limits<double>::quiet_NaN();
    check(code, row.names.elapsed);
    return static_cast<double>(time) * (elapsed_us_ != nullptr ? 1e-6 : 1e-3);
  }

  void check(Status code, const char* call) const {
    if (code == 0) [[likely]]
      return;
    bool no_memory = code == kOutOfMemory || named(code, "OutOfMemory") ||
                     named(code, "MemoryAllocation") || named(code, "NoMem");
    if (no_memory) throw OutOfMemoryError(describe(call, code));
    throw Error(describe(call, code));
  }
  std::string describe(std::string_view call, Status code) const {
    return describe_symbol(row.prefix + std::string(call), code);
  }
  std::string describe_symbol(std::string_view symbol, Status code) const {
    const char* text = error_string(code);
    return Error::describe(symbol, code, text != nullptr ? text : "");
  }
  bool not_ready(Status code) const { return code == kNotReady || named(code, "NotReady"); }
  bool no_device(Status code) const { return code == kNoDevice || named(code, "NoDevice"); }
  /// A runtime may keep an error that was handled here for the next caller: a library would
  /// take it for its own.
  void forget_error() const {
    if (last_error) last_error();
  }

 private:
  bool named(Status code, const char* word) const {
    const char* name = error_name != nullptr ? error_name(code) : nullptr;
    return name != nullptr && std::strstr(name, word) != nullptr;
  }
  template <typename Function>
  static Function* as(void* address) {
    return reinterpret_cast<Function*>(address);
  }
  std::string symbol_of(const char* name) const { return row.prefix + std::string(name); }
  template <typename Function>
  Function* require(const char* name) const {
    return library.require<Function>(symbol_of(name).c_str());
  }
  template <typename... Arguments>
  Optional<Arguments...> optional(const char* name) const {
    std::string symbol = symbol_of(name);
    return {symbol, library.optional<Status(Arguments...)>(symbol.c_str())};
  }
  static std::vector<std::string> candidates(const Row& row) {
    if (const char* chosen = setting(row.variable)) return {chosen};
    return {row.sonames.begin(), row.sonames.end()};
  }
};

/// What compiles kernels for the devices of a runtime, and loads and launches them.
struct VendorKernels {
  VendorKernels(const Vendor& vendor, const KernelTools& which)
      : tools(which),
        compiler(which.compiler, [&] { return near(vendor, which.compiler_files); }),
        library(which.driver_files[0] == nullptr
                    ? vendor.library
                    : Library::open("the driver of " + std::string(vendor.row.what),
                                    near(vendor, which.driver_files), "")) {}

  const KernelTools& tools;
  RuntimeCompiler compiler;
  Library library;
  Status (*load)(void**, const void*) =
      library.require<Status(void**, const void*)>(symbol_of("ModuleLoadData").c_str());
  Status (*get_function)(void**, void*, const char*) =
      library.require<Status(void**, void*, const char*)>(symbol_of("ModuleGetFunction").c_str());
  Status (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void*, void**, void**) =
      library.require<Status(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, void*, void**, void**)>(tools.launch);

  std::string symbol_of(const char* name) const { return tools.prefix + std::string(name); }

 private:
  /// First the files that belong to the runtime, then those that the loader finds.
  static std::vector<std::string> near(const Vendor& vendor, const Files& names) {
    std::string runtime = vendor.library.path();
    std::vector<std::string> beside, elsewhere;
    for (const char* name : names) {
      if (name == nullptr) break;
      beside.push_back(std::filesystem::path(runtime).replace_filename(name));
      elsewhere.emplace_back(name);
    }
    if (beside.empty()) return {runtime};
    beside.insert(beside.end(), elsewhere.begin(), elsewhere.end());
    return beside;
  }
};

class VendorDevice final : public Device {
 public:
  VendorDevice(const Vendor& vendor, int index) : api_(vendor), index_(index) {
    activate();
    describe();
  }

  const DeviceInfo& info() const override { return info_; }
  size_t free_memory_bytes() const override {
    size_t free = 0, total = 0;
    api_.check(api_.memory_info(&free, &total), "MemGetInfo");
    return free;
  }
  void activate() override { api_.check(api_.set_device(index_), "SetDevice"); }

  void* allocate(size_t bytes) override {
    void* memory = nullptr;
    api_.check(api_.allocate(&memory, bytes == 0 ? 1 : bytes), "Malloc");
    return memory;
  }
  void release(void* memory) noexcept override { api_.release(memory); }
  void copy_to_host(void* host, const void* device, size_t bytes) override {
    if (bytes == 0) return;
    api_.check(api_.copy(host, device, bytes, api_.row.directions.to_host), "Memcpy");
  }
  void copy_from_host(void* device, const void* host, size_t bytes) override {
    if (bytes == 0) return;
    api_.check(api_.copy(device, host, bytes, api_.row.directions.to_device), "Memcpy");
    // As with CUDA: from pageable memory the last part may still be on its way, and our streams do
    // not wait for it. What is copied back comes after it.
    unsigned char last = 0;
    copy_to_host(&last, static_cast<std::byte*>(device) + bytes - 1, 1);
  }
  void copy_async(void* to, const void* from, size_t bytes, void* stream) override {
    if (bytes == 0) return;
    api_.check(api_.copy_async(to, from, bytes, stream), api_.row.names.copy_async);
  }
  void fill_bytes(void* memory, int byte, size_t bytes, void* stream) override {
    if (bytes == 0) return;
    api_.check(api_.fill_async(memory, byte, bytes, stream), "MemsetAsync");
  }

  void* allocate_pinned(size_t bytes) override {
    void* memory = nullptr;
    api_.check(api_.allocate_host(&memory, bytes == 0 ? 1 : bytes, 0),
               api_.row.names.allocate_host);
    return memory;
  }
  void release_pinned(void* memory) noexcept override {
    if (api_.release_host) api_.release_host(memory);
  }

  void* pin(void* memory, size_t bytes) override {
    if (!api_.unregister_host || !api_.device_pointer || api_.row.order != Order::cuda) {
      return Device::pin(memory, bytes);
    }
    Status code = api_.register_host(memory, bytes, kHostRegisterPortableMapped);
    if (code != 0) {
      api_.forget_error();
      throw UnsupportedError(api_.describe("HostRegister", code));
    }
    void* address = nullptr;
    code = api_.device_pointer(&address, memory, 0);
    if (code != 0) {
      unpin(memory);
      api_.forget_error();
      throw UnsupportedError(api_.describe("HostGetDevicePointer", code));
    }
    return address;
  }
  void unpin(void* memory) noexcept override { api_.unregister_host(memory); }

  bool reaches(const Device& peer) const override {
    return devices_reach(api_, index_, peer.info().index);
  }
  static bool devices_reach(const Vendor& api, int from, int to) {
    if (!api.can_access_peer) return false;
    int possible = 0;
    api.check(api.can_access_peer(&possible, from, to), api.row.names.can_access_peer);
    return possible != 0;
  }
  void open_access(Device& peer) override {
    // Cambricon's devices reach each other without it.
    if (!api_.enable_peer_access && api_.row.order == Order::cambricon) return;
    activate();
    Status code = api_.enable_peer_access(peer.info().index, 0);
    if (code == 0) return;
    api_.forget_error();
    if (code == kPeerAccessAlreadyEnabled) return;
    throw UnsupportedError(api_.describe("DeviceEnablePeerAccess", code));
  }
  void close_access(Device& peer) override {
    activate();
    Status code = api_.disable_peer_access(peer.info().index);
    if (code == 0) return;
    api_.forget_error();
    if (code != kPeerAccessNotEnabled) api_.check(code, "DeviceDisablePeerAccess");
  }
  void copy_between(void* to, Device& to_device, const void* from, Device& from_device,
                    size_t bytes, void* stream) override {
    api_.check(api_.copy_peer_async(to, to_device.info().index, from, from_device.info().index,
                                    bytes, stream),
               "MemcpyPeerAsync");
  }

  void* allocate_shareable(size_t bytes) override {
    void* memory = allocate(bytes);
    try {
      share(memory);
    } catch (...) {
      release(memory);
      throw;
    }
    return memory;
  }
  SharedMemory share(void* memory) override {
    SharedMemory shared;
    require_shared(api_.ipc_get(&shared.handle, memory), "IpcGetMemHandle");
    return shared;
  }
  void* open_shared(const SharedMemory& shared) override {
    void* memory = nullptr;
    require_shared(api_.ipc_open(&memory, shared.handle, api_.row.ipc_flags), "IpcOpenMemHandle");
    return memory;
  }
  void close_shared(void* memory) noexcept override {
    if (api_.ipc_close) api_.ipc_close(memory);
  }

  bool synchronous() const override { return false; }
  void* create_stream() override {
    void* stream = nullptr;
    api_.check(api_.create_stream(&stream), api_.row.names.create_stream);
    return stream;
  }
  void destroy_stream(void* stream) noexcept override { api_.destroy_stream(stream); }
  bool idle(void* stream) override {
    Status code = api_.query_stream(stream);
    if (code == 0) return true;
    if (!api_.not_ready(code)) api_.check(code, api_.row.names.query_stream);
    api_.forget_error();
    return false;
  }

  void* create_event() override {
    void* event = nullptr;
    api_.check(api_.create_event(&event), api_.row.names.create_event);
    return event;
  }
  void destroy_event(void* event) noexcept override { api_.destroy_event(event); }
  void record(void* event, void* stream) override {
    api_.check(api_.record_event(event, stream), api_.row.names.record_event);
  }
  void wait_for_event(void* event, void* stream) override {
    api_.check(api_.wait_event(stream, event, 0), "StreamWaitEvent");
  }
  double elapsed_s(void* start, void* end) override { return api_.elapsed_s(start, end); }

  std::string no_graphs() const override {
    bool complete = api_.begin_capture && api_.end_capture && api_.instantiate &&
                    api_.launch_graph && api_.destroy_graph && api_.destroy_executable;
    return complete ? "" : info_.runtime + "'s runtime does not support graphs";
  }
  void begin_capture(void* stream) override {
    if (std::string reason = no_graphs(); !reason.empty()) throw UnsupportedError(reason);
    api_.check(api_.begin_capture(stream, kCaptureThreadLocal), "StreamBeginCapture");
  }
  void* end_capture(void* stream) override {
    void* graph = nullptr;
    api_.check(api_.end_capture(stream, &graph), "StreamEndCapture");
    void* executable = nullptr;
    Status code = api_.instantiate(&executable, graph, 0);
    api_.destroy_graph(graph);
    api_.check(code, "GraphInstantiateWithFlags");
    return executable;
  }
  void abandon_capture(void* stream) noexcept override {
    void* graph = nullptr;
    api_.end_capture(stream, &graph);
    if (graph != nullptr) api_.destroy_graph(graph);
    api_.forget_error();
  }
  void launch_graph(void* graph, void* stream) override {
    api_.check(api_.launch_graph(graph, stream), "GraphLaunch");
  }
  void destroy_graph(void* graph) noexcept override { api_.destroy_executable(graph); }

  const Kernel& kernel(const char* name) override {
    auto known = kernels_.find(name);
    if (known != kernels_.end()) return known->second;
    if (api_.row.kernels == nullptr) throw no_compiler(info_.runtime);
    // Compilers have no common name for a clock: see dialect.cu.
    std::string source = kernel_source_of(name);
    for (const char* timed : {"cclmark_delay", "cclmark_ping_pong"}) {
      if (source == "clock" || std::strcmp(name, timed) == 0) {
        throw MissingError("kernels of " + info_.runtime + " devices have no clock, which " + name +
                           " requires");
      }
    }
    Kernel kernel{nullptr, kSharedBytesByDefault};
    void* module = module_of(source);
    check_module(vendor_kernels().get_function(&kernel.function, module, name),
                 "ModuleGetFunction");
    return kernels_.emplace(name, kernel).first->second;
  }
  void launch(const Kernel& kernel, void* arguments, size_t items, void* stream) override {
    launch_grid(kernel, arguments, grid_for(items, std::max(1, info_.multiprocessors)), stream);
  }
  void launch_grid(const Kernel& kernel, void* arguments, const Grid& grid, void* stream) override {
    void* parameters[] = {arguments};
    const VendorKernels& tools = vendor_kernels();
    Status code = tools.launch(kernel.function, grid.blocks, 1, 1, grid.threads, 1, 1,
                               grid.shared_bytes, stream, parameters, nullptr);
    if (code != 0) throw Error(api_.describe_symbol(tools.tools.launch, code));
  }

  void wait_for_flag(const uint32_t* flag, uint32_t value, void* stream) override {
    // HIP supports it for a special kind of memory, and some releases refuse it for other memory.
    allowed(
        api_.wait_value(stream, const_cast<uint32_t*>(flag), value, kWaitValueAtLeast, kWholeWord),
        "StreamWaitValue32");
  }
  void call_host(void (*function)(void*), void* argument, void* stream) override {
    Status code = api_.call_host(stream, function, argument);
    if (code == 0) return;
    api_.forget_error();
    throw UnsupportedError(api_.describe(api_.row.names.call_host, code));
  }
  void write_flag(uint32_t* flag, uint32_t value, void* stream) override {
    allowed(api_.write_value(stream, flag, value, 0), "StreamWriteValue32");
  }

 private:
  VendorKernels& vendor_kernels() {
    if (!tools_) tools_.emplace(api_, *api_.row.kernels);
    return *tools_;
  }

  /// Raises MissingError for any failure, so that what needs no kernels goes on. The failure is
  /// kept: what does not compile or load once never does.
  void* module_of(const std::string& source) {
    auto loaded = modules_.find(source);
    if (loaded != modules_.end()) return loaded->second;
    auto failed = failures_.find(source);
    if (failed != failures_.end()) throw MissingError(failed->second);
    try {
      return modules_[source] = load(source);
    } catch (const OutOfMemoryError&) {
      throw;
    } catch (const Error& error) {
      failures_[source] = error.what();
      throw MissingError(error.what());
    }
  }

  /// A file of the cache may be damaged, or for another device: then the kernels are compiled
  /// again.
  void* load(const std::string& source) {
    VendorKernels& tools = vendor_kernels();
    void* module = nullptr;
    if (tools.load(&module, compiled(source, KernelCache::use).data()) == 0) return module;
    api_.forget_error();
    check_module(tools.load(&module, compiled(source, KernelCache::renew).data()),
                 "ModuleLoadData");
    return module;
  }

  std::string compiled(const std::string& source, KernelCache cache) {
    VendorKernels& tools = vendor_kernels();
    std::string target = info_.runtime + "-" + info_.name + "-" + info_.driver_version;
    for (char& c : target) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
    int major = attribute(kComputeMajor), minor = attribute(kComputeMinor);
    if (tools.tools.architecture_option != nullptr && major > 0 && minor >= 0) {
      try {
        std::string option =
            tools.tools.architecture_option + std::to_string(major) + std::to_string(minor);
        return tools.compiler.compile(source, target, {option}, cache);
      } catch (const MissingError&) {
        throw;
      } catch (const Error&) {
        // The option may be one that this release does not have.
      }
    }
    return tools.compiler.compile(source, target, {}, cache);
  }

  void check_module(Status code, const char* call) {
    if (code == 0) return;
    api_.forget_error();
    throw Error(api_.describe_symbol(vendor_kernels().symbol_of(call), code));
  }

  /// Raises UnsupportedError if the runtime does not support the call, or not for such memory.
  void allowed(Status code, const char* call) const {
    if (code == kNotSupported || code == kInvalidValue) {
      api_.forget_error();
      throw UnsupportedError(api_.describe(call, code));
    }
    api_.check(code, call);
  }

  void require_shared(Status code, const char* call) const {
    if (code == 0) return;
    api_.forget_error();
    throw UnsupportedError(
        api_.describe(call, code) +
        ": this system does not permit processes to share device memory (a "
        "container may require --ipc=host), which one process for all devices does not need");
  }

  void describe() {
    info_.runtime = api_.row.name;
    info_.index = index_;
    info_.name = device_name();
    char text[64] = "";
    if (api_.pci_bus_id && api_.pci_bus_id(text, sizeof(text), index_) == 0) {
      info_.pci_bus_id = text;
    }
    info_.cache_bytes = static_cast<size_t>(std::max(0, attribute(api_.row.cache_attribute)));
    if (api_.row.kernels) {
      info_.multiprocessors = std::max(0, attribute(api_.row.kernels->processors_attribute));
    }
    api_.forget_error();
    size_t free = 0;
    api_.check(api_.memory_info(&free, &info_.memory_bytes), "MemGetInfo");
    info_.driver_version = version();
    info_.library_path = api_.library.path();
  }

  /// kUnknown if the runtime does not tell.
  int attribute(int number) const {
    int value = kUnknown;
    bool told = number != kUnknown && api_.attribute && api_.attribute(&value, number, index_) == 0;
    return told ? value : kUnknown;
  }

  /// All these runtimes describe a device by a structure of their own that begins with its name,
  /// 256 bytes of text. The rest of it differs, also from version to version.
  std::string device_name() const {
    constexpr size_t kNameBytes = 256, kMorePropertiesThanAny = 16384;
    std::vector<uint64_t> properties(kMorePropertiesThanAny / sizeof(uint64_t));
    auto name = reinterpret_cast<const char*>(properties.data());
    bool told = api_.properties && api_.properties(properties.data(), index_) == 0;
    std::string text = told ? std::string(name, strnlen(name, kNameBytes)) : "";
    return text.empty() ? std::string(api_.row.name) + " device" : text;
  }

  std::string version() const {
    int number = 0;
    if (!api_.version || api_.version(&number) != 0) return "";
    const Row& row = api_.row;
    if (row.version_major == 0) return std::to_string(number);
    return std::to_string(number / row.version_major) + "." +
           std::to_string(number % row.version_major / row.version_minor);
  }

  const Vendor& api_;
  int index_;
  DeviceInfo info_;
  std::optional<VendorKernels> tools_;
  std::map<std::string, void*> modules_;
  std::map<std::string, std::string> failures_;  ///< by source, as modules_
  std::map<std::string, Kernel> kernels_;
};

template <size_t row>
const Vendor& vendor() {
  static const Vendor loaded(rows()[row]);
  return loaded;
}

template <size_t row>
int count() {
  const Vendor& api = vendor<row>();
  int devices = 0;
  Status code = api.device_count(&devices);
  if (api.no_device(code)) return 0;
  try {
    api.check(code, "GetDeviceCount");
  } catch (const Error& error) {
    throw Error(error.what() + (" in " + api.library.path()) + ": set " + api.row.variable +
                " to use another file");
  }
  return devices;
}

template <size_t row>
std::unique_ptr<Device> open(int index) {
  return std::make_unique<VendorDevice>(vendor<row>(), index);
}

template <size_t row>
bool reach(int from, int to) {
  return VendorDevice::devices_reach(vendor<row>(), from, to);
}

template <size_t... row>
std::array<Runtime, kVendorRuntimes> make(std::index_sequence<row...>) {
  return {{{rows()[row].name, count<row>, open<row>, reach<row>}...}};
}

}  // namespace

std::span<const Runtime> vendor_runtimes() {
  static const auto runtimes = make(std::make_index_sequence<kVendorRuntimes>());
  return runtimes;
}

}  // namespace cclmark
