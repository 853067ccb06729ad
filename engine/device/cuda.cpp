// NVIDIA devices through the driver API (libcuda.so.1), loaded when asked for: no toolkit is needed
// to build or to run. Kernels are compiled by NVRTC where it can be found.

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "core/error.hpp"
#include "core/library.hpp"
#include "device/compiled_kernels.hpp"
#include "device/device.hpp"

namespace cclmark {

namespace {

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUresult = int;

constexpr CUresult kOutOfMemory = 2;
constexpr CUresult kNotReady = 600;
constexpr CUresult kNotSupported = 801;
constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventDefault = 0;
constexpr unsigned kHostAllocPortable = 1;
constexpr unsigned kIpcLazyPeerAccess = 1;
constexpr unsigned kWaitValueAtLeast = 0;
constexpr unsigned kHostRegisterPortable = 1, kHostRegisterMapped = 2;
constexpr int kMaxDynamicSharedBytes = 8;
constexpr unsigned kSharedBytesByDefault = 48 << 10;
constexpr int kNativeAtomicsOfPeers = 3;  // CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED
constexpr CUresult kPeerAccessUnsupported = 217;
constexpr CUresult kPeerAccessAlreadyEnabled = 704;
constexpr CUresult kPeerAccessNotEnabled = 705;
constexpr int kCaptureThreadLocal = 1;

enum Attribute : int {
  kMultiprocessorCount = 16,
  kL2CacheBytes = 38,
  kComputeMajor = 75,
  kComputeMinor = 76,
  kMaxSharedBytesOptIn = 97,
  kFabricHandles = 128,
};

// CUmemAllocationHandleType
constexpr int kFileDescriptor = 1, kFabric = 8;

/// CUmemLocation: a device.
struct MemoryLocation {
  int type = 1;
  int id = 0;
};

/// CUmemAllocationProp: pinned memory of a device that a file descriptor, or a fabric handle, can
/// stand for.
struct AllocationProperties {
  int type = 1;
  int handle_types = kFileDescriptor;
  MemoryLocation location;
  void* windows_metadata = nullptr;
  unsigned char flags[8] = {};
};
static_assert(sizeof(AllocationProperties) == 32);

/// CUmemAccessDesc: read and write.
struct AccessDescription {
  MemoryLocation location;
  int flags = 3;
};

/// A function that a driver may lack.
template <typename... Arguments>
struct Optional {
  const char* symbol;
  CUresult (*function)(Arguments...);
  CUresult operator()(Arguments... arguments) const {
    if (function == nullptr) {
      throw UnsupportedError("this driver has no " + std::string(symbol) +
                             ": install a newer driver");
    }
    return function(arguments...);
  }
};

/// The part of the driver API that is used, resolved once.
struct Driver {
  Library library = Library::open("the NVIDIA driver (libcuda)", candidates(), kVariable);

#define CCLMARK_CUDA(name, symbol, ...) \
  CUresult (*name)(__VA_ARGS__) = library.require<CUresult(__VA_ARGS__)>(symbol)
// Functions that only transfers between devices require: drivers without them support all else.
#define CCLMARK_CUDA_OPTIONAL(name, symbol, ...)            \
  Optional<__VA_ARGS__> name {                              \
    symbol, library.optional<CUresult(__VA_ARGS__)>(symbol) \
  }
  CCLMARK_CUDA(init, "cuInit", unsigned);
  CCLMARK_CUDA(driver_version, "cuDriverGetVersion", int*);
  CCLMARK_CUDA(error_string, "cuGetErrorString", CUresult, const char**);
  CCLMARK_CUDA(device_count, "cuDeviceGetCount", int*);
  CCLMARK_CUDA(device_get, "cuDeviceGet", CUdevice*, int);
  CCLMARK_CUDA(device_name, "cuDeviceGetName", char*, int, CUdevice);
  CCLMARK_CUDA(device_memory, "cuDeviceTotalMem_v2", size_t*, CUdevice);
  CCLMARK_CUDA(device_attribute, "cuDeviceGetAttribute", int*, int, CUdevice);
  CCLMARK_CUDA(device_pci, "cuDeviceGetPCIBusId", char*, int, CUdevice);
  CCLMARK_CUDA(retain_context, "cuDevicePrimaryCtxRetain", void**, CUdevice);
  CCLMARK_CUDA(release_context, "cuDevicePrimaryCtxRelease_v2", CUdevice);
  CCLMARK_CUDA(set_context, "cuCtxSetCurrent", void*);
  CCLMARK_CUDA(memory_info, "cuMemGetInfo_v2", size_t*, size_t*);
  CCLMARK_CUDA(allocate, "cuMemAlloc_v2", CUdeviceptr*, size_t);
  CCLMARK_CUDA(release, "cuMemFree_v2", CUdeviceptr);
  CCLMARK_CUDA(copy_to_host, "cuMemcpyDtoH_v2", void*, CUdeviceptr, size_t);
  CCLMARK_CUDA(copy_from_host, "cuMemcpyHtoD_v2", CUdeviceptr, const void*, size_t);
  CCLMARK_CUDA(copy_async, "cuMemcpyAsync", CUdeviceptr, CUdeviceptr, size_t, void*);
  CCLMARK_CUDA_OPTIONAL(copy_peer_async, "cuMemcpyPeerAsync", CUdeviceptr, void*, CUdeviceptr,
                        void*, size_t, void*);
  CCLMARK_CUDA_OPTIONAL(allocate_host, "cuMemHostAlloc", void**, size_t, unsigned);
  CCLMARK_CUDA_OPTIONAL(release_host, "cuMemFreeHost", void*);
  CCLMARK_CUDA_OPTIONAL(can_access_peer, "cuDeviceCanAccessPeer", int*, CUdevice, CUdevice);
  CCLMARK_CUDA_OPTIONAL(p2p_attribute, "cuDeviceGetP2PAttribute", int*, int, CUdevice, CUdevice);
  CCLMARK_CUDA_OPTIONAL(enable_peer_access, "cuCtxEnablePeerAccess", void*, unsigned);
  CCLMARK_CUDA_OPTIONAL(disable_peer_access, "cuCtxDisablePeerAccess", void*);
  CCLMARK_CUDA_OPTIONAL(ipc_get, "cuIpcGetMemHandle", MemoryHandle*, CUdeviceptr);
  CCLMARK_CUDA_OPTIONAL(ipc_open, "cuIpcOpenMemHandle_v2", CUdeviceptr*, MemoryHandle, unsigned);
  CCLMARK_CUDA_OPTIONAL(ipc_close, "cuIpcCloseMemHandle", CUdeviceptr);
  CCLMARK_CUDA_OPTIONAL(granularity, "cuMemGetAllocationGranularity", size_t*,
                        const AllocationProperties*, int);
  CCLMARK_CUDA_OPTIONAL(create_memory, "cuMemCreate", unsigned long long*, size_t,
                        const AllocationProperties*, unsigned long long);
  CCLMARK_CUDA_OPTIONAL(release_memory, "cuMemRelease", unsigned long long);
  CCLMARK_CUDA_OPTIONAL(reserve_address, "cuMemAddressReserve", CUdeviceptr*, size_t, size_t,
                        CUdeviceptr, unsigned long long);
  CCLMARK_CUDA_OPTIONAL(free_address, "cuMemAddressFree", CUdeviceptr, size_t);
  CCLMARK_CUDA_OPTIONAL(map_memory, "cuMemMap", CUdeviceptr, size_t, size_t, unsigned long long,
                        unsigned long long);
  CCLMARK_CUDA_OPTIONAL(unmap_memory, "cuMemUnmap", CUdeviceptr, size_t);
  CCLMARK_CUDA_OPTIONAL(set_access, "cuMemSetAccess", CUdeviceptr, size_t, const AccessDescription*,
                        size_t);
  CCLMARK_CUDA_OPTIONAL(export_handle, "cuMemExportToShareableHandle", void*, unsigned long long,
                        int, unsigned long long);
  CCLMARK_CUDA_OPTIONAL(import_handle, "cuMemImportFromShareableHandle", unsigned long long*, void*,
                        int);
  CCLMARK_CUDA_OPTIONAL(wait_value, "cuStreamWaitValue32_v2", void*, CUdeviceptr, uint32_t,
                        unsigned);
  CCLMARK_CUDA_OPTIONAL(call_host, "cuLaunchHostFunc", void*, void (*)(void*), void*);
  CCLMARK_CUDA_OPTIONAL(write_value, "cuStreamWriteValue32_v2", void*, CUdeviceptr, uint32_t,
                        unsigned);
  CCLMARK_CUDA_OPTIONAL(wait_event, "cuStreamWaitEvent", void*, void*, unsigned);
  CCLMARK_CUDA_OPTIONAL(register_host, "cuMemHostRegister_v2", void*, size_t, unsigned);
  CCLMARK_CUDA_OPTIONAL(unregister_host, "cuMemHostUnregister", void*);
  CCLMARK_CUDA_OPTIONAL(host_address, "cuMemHostGetDevicePointer_v2", CUdeviceptr*, void*,
                        unsigned);
  CCLMARK_CUDA_OPTIONAL(function_attribute, "cuFuncSetAttribute", void*, int, int);
  CCLMARK_CUDA(fill_async, "cuMemsetD8Async", CUdeviceptr, unsigned char, size_t, void*);
  CCLMARK_CUDA(create_stream, "cuStreamCreate", void**, unsigned);
  CCLMARK_CUDA(destroy_stream, "cuStreamDestroy_v2", void*);
  CCLMARK_CUDA(query_stream, "cuStreamQuery", void*);
  CCLMARK_CUDA(create_event, "cuEventCreate", void**, unsigned);
  CCLMARK_CUDA(destroy_event, "cuEventDestroy_v2", void*);
  CCLMARK_CUDA(record_event, "cuEventRecord", void*, void*);
  CCLMARK_CUDA(elapsed, "cuEventElapsedTime", float*, void*, void*);
  CCLMARK_CUDA(begin_capture, "cuStreamBeginCapture_v2", void*, int);
  CCLMARK_CUDA(end_capture, "cuStreamEndCapture", void*, void**);
  CCLMARK_CUDA(instantiate, "cuGraphInstantiateWithFlags", void**, void*, unsigned long long);
  CCLMARK_CUDA(launch_graph, "cuGraphLaunch", void*, void*);
  CCLMARK_CUDA(destroy_graph, "cuGraphDestroy", void*);
  CCLMARK_CUDA(destroy_executable, "cuGraphExecDestroy", void*);
  CCLMARK_CUDA(load_module, "cuModuleLoadData", void**, const void*);
  CCLMARK_CUDA(get_function, "cuModuleGetFunction", void**, void*, const char*);
  CCLMARK_CUDA(launch, "cuLaunchKernel", void*, unsigned, unsigned, unsigned, unsigned, unsigned,
               unsigned, unsigned, void*, void**, void**);
#undef CCLMARK_CUDA
#undef CCLMARK_CUDA_OPTIONAL

  static constexpr const char* kVariable = "CCLMARK_CUDA_LIBRARY";

  static std::vector<std::string> candidates() {
    if (const char* chosen = setting(kVariable)) return {chosen};
    return {"libcuda.so.1", "libcuda.so", "/usr/local/nvidia/lib64/libcuda.so.1",
            "/usr/lib/wsl/lib/libcuda.so.1"};
  }

  void check(CUresult code, const char* call) const {
    if (code == 0) return;
    if (code == kOutOfMemory) throw OutOfMemoryError(describe(call, code));
    throw Error(describe(call, code));
  }

  std::string describe(std::string_view call, CUresult code) const {
    const char* text = nullptr;
    if (error_string(code, &text) != 0 || text == nullptr) text = "unknown error";
    return Error::describe(call, code, text);
  }
};

Driver& driver() {
  static Driver loaded = [] {
    Driver fresh;
    fresh.check(fresh.init(0), "cuInit");
    return fresh;
  }();
  return loaded;
}

CUdeviceptr address(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

class CudaDevice final : public Device {
 public:
  /// Delegates, so that the context is released when what comes after it fails.
  explicit CudaDevice(int index) : CudaDevice(driver(), index) {
    activate();
    describe(index);
  }

  ~CudaDevice() override { cu_.release_context(device_); }

  const DeviceInfo& info() const override { return info_; }

  size_t free_memory_bytes() const override {
    size_t free = 0, total = 0;
    cu_.check(cu_.memory_info(&free, &total), "cuMemGetInfo");
    return free;
  }

  void activate() override { cu_.check(cu_.set_context(context_), "cuCtxSetCurrent"); }

  void* allocate(size_t bytes) override {
    CUdeviceptr memory = 0;
    cu_.check(cu_.allocate(&memory, bytes == 0 ? 1 : bytes), "cuMemAlloc");
    return reinterpret_cast<void*>(memory);
  }
  void release(void* memory) noexcept override {
    if (!unmap(memory)) cu_.release(address(memory));
  }

  void copy_to_host(void* host, const void* from, size_t bytes) override {
    cu_.check(cu_.copy_to_host(host, address(from), bytes), "cuMemcpyDtoH");
  }
  void copy_from_host(void* to, const void* host, size_t bytes) override {
    if (bytes == 0) return;
    cu_.check(cu_.copy_from_host(address(to), host, bytes), "cuMemcpyHtoD");
    // From pageable memory that call may return while the last part is still on its way, and our
    // streams do not wait for the default stream. A copy back to pageable memory does, and it comes
    // after the first in the default stream's order.
    unsigned char last = 0;
    copy_to_host(&last, static_cast<std::byte*>(to) + bytes - 1, 1);
  }
  void copy_async(void* to, const void* from, size_t bytes, void* stream) override {
    cu_.check(cu_.copy_async(address(to), address(from), bytes, stream), "cuMemcpyAsync");
  }
  void fill_bytes(void* memory, int byte, size_t bytes, void* stream) override {
    if (bytes == 0) return;
    cu_.check(cu_.fill_async(address(memory), static_cast<unsigned char>(byte), bytes, stream),
              "cuMemsetD8Async");
  }

  void* allocate_pinned(size_t bytes) override {
    void* memory = nullptr;
    cu_.check(cu_.allocate_host(&memory, bytes == 0 ? 1 : bytes, kHostAllocPortable),
              "cuMemHostAlloc");
    return memory;
  }
  void release_pinned(void* memory) noexcept override { cu_.release_host(memory); }
  void* pin(void* memory, size_t bytes) override {
    CUresult code = cu_.register_host(memory, bytes, kHostRegisterPortable | kHostRegisterMapped);
    if (code != 0) throw UnsupportedError(cu_.describe("cuMemHostRegister", code));
    CUdeviceptr found = 0;
    code = cu_.host_address(&found, memory, 0);
    if (code != 0) {
      unpin(memory);
      throw UnsupportedError(cu_.describe("cuMemHostGetDevicePointer", code));
    }
    return reinterpret_cast<void*>(found);
  }
  void unpin(void* memory) noexcept override { cu_.unregister_host(memory); }

  bool reaches(const Device& peer) const override {
    int possible = 0;
    cu_.check(cu_.can_access_peer(&possible, device_, cuda(peer).device_), "cuDeviceCanAccessPeer");
    return possible != 0;
  }
  void open_access(Device& peer) override {
    activate();
    CUresult code = cu_.enable_peer_access(cuda(peer).context_, 0);
    if (code == kPeerAccessAlreadyEnabled || code == 0) return;
    throw UnsupportedError(cu_.describe("cuCtxEnablePeerAccess", code));
  }
  void close_access(Device& peer) override {
    activate();
    CUresult code = cu_.disable_peer_access(cuda(peer).context_);
    if (code != kPeerAccessNotEnabled) cu_.check(code, "cuCtxDisablePeerAccess");
  }
  void copy_between(void* to, Device& to_device, const void* from, Device& from_device,
                    size_t bytes, void* stream) override {
    cu_.check(cu_.copy_peer_async(address(to), cuda(to_device).context_, address(from),
                                  cuda(from_device).context_, bytes, stream),
              "cuMemcpyPeerAsync");
  }

  void* allocate_mapped(size_t bytes) override {
    Mapped mapped;
    CUresult code = create(kFileDescriptor, bytes, mapped);
    if (code != 0) refuse_sharing("cuMemCreate", code);
    return map(mapped);
  }
  /// Plain memory, which legacy handles serve for, or where those are forbidden (as in containers
  /// without the host's IPC namespace) memory behind a file descriptor.
  void* allocate_shareable(size_t bytes) override {
    void* memory = allocate(bytes);
    MemoryHandle handle;
    CUresult refused = cu_.ipc_get(&handle, address(memory));
    if (refused == 0) return memory;
    release(memory);
    try {
      return allocate_mapped(bytes);
    } catch (const UnsupportedError&) {
      refuse_sharing("cuIpcGetMemHandle", refused);
    }
  }
  void* allocate_for_hosts(size_t bytes) override {
    int supported = 0;
    if (cu_.device_attribute(&supported, kFabricHandles, device_) != 0 || supported == 0) {
      throw UnsupportedError(
          "the driver offers no fabric handles for this device "
          "(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED is 0)");
    }
    Mapped mapped;
    CUresult code = create(kFabric, bytes, mapped);
    if (code != 0) throw UnsupportedError(cu_.describe("cuMemCreate", code) + imex_advice());
    return map(mapped);
  }
  SharedMemory share(void* memory) override {
    SharedMemory shared;
    auto exported = mapped_.find(memory);
    if (exported == mapped_.end()) {
      cu_.check(cu_.ipc_get(&shared.handle, address(memory)), "cuIpcGetMemHandle");
      return shared;
    }
    if (exported->second.type == kFabric) {
      shared.fabric_bytes = exported->second.bytes;
      CUresult code = cu_.export_handle(&shared.handle, exported->second.handle, kFabric, 0);
      if (code == 0) return shared;
      throw UnsupportedError(cu_.describe("cuMemExportToShareableHandle", code) + imex_advice());
    }
    cu_.check(cu_.export_handle(&shared.descriptor, exported->second.handle, kFileDescriptor, 0),
              "cuMemExportToShareableHandle");
    std::memcpy(shared.handle.bytes.data(), &exported->second.bytes, sizeof(size_t));
    return shared;
  }
  void* open_shared(const SharedMemory& shared) override {
    if (shared.fabric_bytes > 0) return open_fabric(shared);
    if (shared.descriptor < 0) {
      CUdeviceptr memory = 0;
      CUresult code = cu_.ipc_open(&memory, shared.handle, kIpcLazyPeerAccess);
      if (code != 0) refuse_sharing("cuIpcOpenMemHandle", code);
      return reinterpret_cast<void*>(memory);
    }
    Mapped mapped;
    std::memcpy(&mapped.bytes, shared.handle.bytes.data(), sizeof(size_t));
    auto descriptor = reinterpret_cast<void*>(static_cast<intptr_t>(shared.descriptor));
    CUresult code = cu_.import_handle(&mapped.handle, descriptor, kFileDescriptor);
    if (code != 0) refuse_sharing("cuMemImportFromShareableHandle", code);
    return map(mapped);
  }
  void close_shared(void* memory) noexcept override {
    if (!unmap(memory)) cu_.ipc_close(address(memory));
  }

  bool synchronous() const override { return false; }
  void* create_stream() override {
    void* stream = nullptr;
    cu_.check(cu_.create_stream(&stream, kStreamNonBlocking), "cuStreamCreate");
    return stream;
  }
  void destroy_stream(void* stream) noexcept override { cu_.destroy_stream(stream); }
  bool idle(void* stream) override {
    CUresult code = cu_.query_stream(stream);
    if (code == kNotReady) return false;
    cu_.check(code, "cuStreamQuery");
    return true;
  }

  void* create_event() override {
    void* event = nullptr;
    cu_.check(cu_.create_event(&event, kEventDefault), "cuEventCreate");
    return event;
  }
  void destroy_event(void* event) noexcept override { cu_.destroy_event(event); }
  void record(void* event, void* stream) override {
    cu_.check(cu_.record_event(event, stream), "cuEventRecord");
  }
  void wait_for_event(void* event, void* stream) override {
    cu_.check(cu_.wait_event(stream, event, 0), "cuStreamWaitEvent");
  }
  double elapsed_s(void* start, void* end) override {
    float ms = 0;
    cu_.check(cu_.elapsed(&ms, start, end), "cuEventElapsedTime");
    return static_cast<double>(ms) * 1e-3;
  }

  void begin_capture(void* stream) override {
    cu_.check(cu_.begin_capture(stream, kCaptureThreadLocal), "cuStreamBeginCapture");
  }
  void* end_capture(void* stream) override {
    void* graph = nullptr;
    cu_.check(cu_.end_capture(stream, &graph), "cuStreamEndCapture");
    void* executable = nullptr;
    CUresult code = cu_.instantiate(&executable, graph, 0);
    cu_.destroy_graph(graph);
    cu_.check(code, "cuGraphInstantiate");
    return executable;
  }
  void abandon_capture(void* stream) noexcept override {
    void* graph = nullptr;
    cu_.end_capture(stream, &graph);
    if (graph != nullptr) cu_.destroy_graph(graph);
  }
  void launch_graph(void* graph, void* stream) override {
    cu_.check(cu_.launch_graph(graph, stream), "cuGraphLaunch");
  }
  void destroy_graph(void* graph) noexcept override { cu_.destroy_executable(graph); }

  const Kernel& kernel(const char* name) override {
    auto known = kernels_.find(name);
    if (known != kernels_.end()) return known->second;
    Kernel kernel{nullptr, kSharedBytesByDefault};
    cu_.check(cu_.get_function(&kernel.function, module_of(kernel_source_of(name)), name),
              "cuModuleGetFunction");
    return kernels_.emplace(name, kernel).first->second;
  }

  void launch(const Kernel& kernel, void* arguments, size_t items, void* stream) override {
    launch_grid(kernel, arguments, grid_for(items, info_.multiprocessors), stream);
  }

  void launch_grid(const Kernel& kernel, void* arguments, const Grid& grid, void* stream) override {
    if (grid.shared_bytes > kernel.shared_limit_bytes) {
      cu_.check(cu_.function_attribute(kernel.function, kMaxDynamicSharedBytes,
                                       static_cast<int>(grid.shared_bytes)),
                "cuFuncSetAttribute");
      kernel.shared_limit_bytes = grid.shared_bytes;
    }
    void* parameters[] = {arguments};
    cu_.check(cu_.launch(kernel.function, grid.blocks, 1, 1, grid.threads, 1, 1, grid.shared_bytes,
                         stream, parameters, nullptr),
              "cuLaunchKernel");
  }

  void wait_for_flag(const uint32_t* flag, uint32_t value, void* stream) override {
    CUresult code = cu_.wait_value(stream, address(flag), value, kWaitValueAtLeast);
    if (code == kNotSupported) throw UnsupportedError(cu_.describe("cuStreamWaitValue32", code));
    cu_.check(code, "cuStreamWaitValue32");
  }
  void call_host(void (*function)(void*), void* argument, void* stream) override {
    CUresult code = cu_.call_host(stream, function, argument);
    if (code == kNotSupported) throw UnsupportedError(cu_.describe("cuLaunchHostFunc", code));
    cu_.check(code, "cuLaunchHostFunc");
  }
  void write_flag(uint32_t* flag, uint32_t value, void* stream) override {
    CUresult code = cu_.write_value(stream, address(flag), value, 0);
    if (code == kNotSupported) throw UnsupportedError(cu_.describe("cuStreamWriteValue32", code));
    cu_.check(code, "cuStreamWriteValue32");
  }

 private:
  CudaDevice(Driver& cu, int index) : cu_(cu) {
    cu_.check(cu_.device_get(&device_, index), "cuDeviceGet");
    cu_.check(cu_.retain_context(&context_, device_), "cuDevicePrimaryCtxRetain");
  }

  static const CudaDevice& cuda(const Device& device) {
    return dynamic_cast<const CudaDevice&>(device);
  }

  [[noreturn]] void refuse_sharing(const char* call, CUresult code) const {
    if (code == kPeerAccessUnsupported) {
      throw UnsupportedError(cu_.describe(call, code) + ": these two devices have no peer access");
    }
    throw UnsupportedError(
        cu_.describe(call, code) +
        ": this system does not permit processes to share device memory (a "
        "container may require --ipc=host), which one process for all devices does not need");
  }

  /// What a refused fabric handle may lack.
  static std::string imex_advice() {
    constexpr const char* kChannels = "/dev/nvidia-caps-imex-channels";
    std::error_code missing;
    if (std::filesystem::is_empty(kChannels, missing) || missing) {
      return std::string(
                 ": fabric handles require a channel of nvidia-imex, and there is none in ") +
             kChannels;
    }
    return ": fabric handles require that nvidia-imex runs on all hosts, connects them "
           "(nvidia-imex-ctl -N), and that all devices are in one NVLink domain and clique";
  }

  void* open_fabric(const SharedMemory& shared) {
    Mapped mapped{.bytes = shared.fabric_bytes};
    MemoryHandle handle = shared.handle;
    CUresult code = cu_.import_handle(&mapped.handle, &handle, kFabric);
    if (code != 0) {
      throw UnsupportedError(cu_.describe("cuMemImportFromShareableHandle", code) + imex_advice());
    }
    try {
      return map(mapped);
    } catch (const OutOfMemoryError&) {
      throw;
    } catch (const Error& error) {
      throw UnsupportedError(error.what() + imex_advice());
    }
  }

  /// Memory that has an identity beside its address.
  struct Mapped {
    unsigned long long handle = 0;
    size_t bytes = 0;
    int type = kFileDescriptor;
  };

  /// Physical memory that handles of `type` can stand for. Returns the code of a refusal.
  CUresult create(int type, size_t bytes, Mapped& created) {
    AllocationProperties properties;
    properties.handle_types = type;
    properties.location.id = device_;
    size_t granularity = 0;
    CUresult code = cu_.granularity(&granularity, &properties, 0);
    if (code != 0) {
      throw UnsupportedError(cu_.describe("cuMemGetAllocationGranularity", code) +
                             ": this device cannot map physical memory (VMM)");
    }
    created.type = type;
    created.bytes = (std::max<size_t>(bytes, 1) + granularity - 1) / granularity * granularity;
    code = cu_.create_memory(&created.handle, created.bytes, &properties, 0);
    if (code == kOutOfMemory) cu_.check(code, "cuMemCreate");
    return code;
  }

  /// Gives memory an address that this device may use.
  void* map(Mapped mapped) {
    CUdeviceptr place = 0;
    CUresult code = cu_.reserve_address(&place, mapped.bytes, 0, 0, 0);
    if (code != 0) {
      cu_.release_memory(mapped.handle);
      cu_.check(code, "cuMemAddressReserve");
    }
    mapped_[reinterpret_cast<void*>(place)] = mapped;
    AccessDescription access;
    access.location.id = device_;
    try {
      cu_.check(cu_.map_memory(place, mapped.bytes, 0, mapped.handle, 0), "cuMemMap");
      cu_.check(cu_.set_access(place, mapped.bytes, &access, 1), "cuMemSetAccess");
    } catch (...) {
      unmap(reinterpret_cast<void*>(place));
      throw;
    }
    return reinterpret_cast<void*>(place);
  }

  bool unmap(void* memory) noexcept {
    auto entry = mapped_.find(memory);
    if (entry == mapped_.end()) return false;
    cu_.unmap_memory(address(memory), entry->second.bytes);
    cu_.free_address(address(memory), entry->second.bytes);
    cu_.release_memory(entry->second.handle);
    mapped_.erase(entry);
    return true;
  }

  /// A file of the cache may be damaged: then the kernels are compiled again.
  void* module_of(const std::string& source) {
    void*& module = modules_[source];
    if (module != nullptr) return module;
    std::string image = compile_for_cuda(source, info_.architecture, KernelCache::use);
    if (cu_.load_module(&module, image.data()) == 0) return module;
    image = compile_for_cuda(source, info_.architecture, KernelCache::renew);
    cu_.check(cu_.load_module(&module, image.data()), "cuModuleLoadData");
    return module;
  }

  int attribute(int which) const {
    int value = 0;
    cu_.check(cu_.device_attribute(&value, which, device_), "cuDeviceGetAttribute");
    return value;
  }

  void describe(int index) {
    char text[256] = "";
    info_.runtime = "cuda";
    info_.index = index;
    cu_.check(cu_.device_name(text, sizeof(text), device_), "cuDeviceGetName");
    info_.name = text;
    cu_.check(cu_.device_pci(text, sizeof(text), device_), "cuDeviceGetPCIBusId");
    info_.pci_bus_id = text;
    info_.architecture = 10 * attribute(kComputeMajor) + attribute(kComputeMinor);
    info_.multiprocessors = attribute(kMultiprocessorCount);
    info_.cache_bytes = static_cast<size_t>(attribute(kL2CacheBytes));
    info_.shared_bytes_per_block = static_cast<size_t>(attribute(kMaxSharedBytesOptIn));
    cu_.check(cu_.device_memory(&info_.memory_bytes, device_), "cuDeviceTotalMem");
    int version = 0;
    cu_.check(cu_.driver_version(&version), "cuDriverGetVersion");
    info_.driver_version =
        std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
    info_.library_path = cu_.library.path();
  }

  Driver& cu_;
  CUdevice device_ = 0;
  void* context_ = nullptr;
  std::map<std::string, void*> modules_;
  std::map<void*, Mapped> mapped_;
  std::map<std::string, Kernel> kernels_;
  DeviceInfo info_;
};

}  // namespace

int cuda_device_count() {
  int count = 0;
  driver().check(driver().device_count(&count), "cuDeviceGetCount");
  return count;
}

bool cuda_devices_reach(int from, int to) {
  Driver& cu = driver();
  CUdevice one = 0, other = 0;
  int possible = 0;
  cu.check(cu.device_get(&one, from), "cuDeviceGet");
  cu.check(cu.device_get(&other, to), "cuDeviceGet");
  cu.check(cu.can_access_peer(&possible, one, other), "cuDeviceCanAccessPeer");
  return possible != 0;
}

/// NVLink executes all atomic operations between devices, PCIe does not.
bool cuda_devices_linked(int from, int to) {
  Driver& cu = driver();
  if (cu.p2p_attribute.function == nullptr) return false;
  CUdevice one = 0, other = 0;
  int atomics = 0;
  cu.check(cu.device_get(&one, from), "cuDeviceGet");
  cu.check(cu.device_get(&other, to), "cuDeviceGet");
  return cu.p2p_attribute(&atomics, kNativeAtomicsOfPeers, one, other) == 0 && atomics != 0;
}

std::unique_ptr<Device> open_cuda_device(int index) {
  return std::make_unique<CudaDevice>(index);
}

}  // namespace cclmark
