// Tensors of torch's PrivateUse1 device in memory of a fake runtime, as vendors' plug-ins have
// them.
//
// The device has one stream: what is entered with fake_enter() runs until fake_leave(). Operations
// of torch wait for it and run on the host. Loaded by plug_in.py, which has the rest.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <torch/library.h>

#include <condition_variable>
#include <mutex>
#include <string>

namespace {

using at::Tensor;
constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

struct Runtime {
  int (*allocate)(void**, size_t, int);
  int (*release)(void*);
  int (*set_device)(int);
} runtime;
thread_local c10::DeviceIndex current = 0;
size_t allocated = 0, most_allocated = 0;

std::mutex mutex;
std::condition_variable ended;
size_t pending = 0;

/// The lock of the interpreter, released if this thread has it: what runs on the stream needs it.
class Unlocked {
 public:
  Unlocked() {
    auto has = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
    if (has()) {
      state_ = reinterpret_cast<void* (*)()>(dlsym(RTLD_DEFAULT, "PyEval_SaveThread"))();
    }
  }
  ~Unlocked() {
    auto restore = reinterpret_cast<void (*)(void*)>(dlsym(RTLD_DEFAULT, "PyEval_RestoreThread"));
    if (state_ != nullptr) restore(state_);
  }

 private:
  void* state_ = nullptr;
};

void synchronize() {
  Unlocked unlocked;
  std::unique_lock lock(mutex);
  ended.wait(lock, [] { return pending == 0; });
}

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* memory = nullptr;
    TORCH_CHECK_WITH(OutOfMemoryError, bytes == 0 || runtime.allocate(&memory, bytes, 0) == 0,
                     "fake device out of memory. Tried to allocate ", bytes, " bytes");
    allocated += bytes;
    most_allocated = std::max(most_allocated, allocated);
    return {memory, new Block{memory, bytes}, &free, {kType, current}};
  }
  static void free(void* context) {
    auto* block = static_cast<Block*>(context);
    runtime.release(block->memory);
    allocated -= block->bytes;
    delete block;
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    synchronize();
    std::memcpy(to, from, bytes);
  }
  struct Block {
    void* memory;
    size_t bytes;
  };
} memory;

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kType, current}; }
  void setDevice(c10::Device device) const override {
    if (!device.has_index()) return;
    current = device.index();
    runtime.set_device(current);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override { setDevice(device); }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 4; }
  // Events between the one stream and itself.
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getStream(device);
  }
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, c10::DeviceIndex) const noexcept override {}
  void synchronizeEvent(void*) const override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

void resize_storage(const c10::Storage& storage, size_t bytes) {
  synchronize();
  c10::DataPtr changed = memory.allocate(bytes);
  std::memcpy(changed.get(), storage.data(), std::min(bytes, storage.nbytes()));
  storage.set_data_ptr(std::move(changed));
  storage.set_nbytes(bytes);
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override { return index == current; }
  c10::DeviceIndex getCurrentDevice() const override { return current; }
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    return at::detail::createCPUGenerator();
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage, bytes);
  }
};

/// The same memory as a tensor of the host.
Tensor on_host(const Tensor& tensor) {
  return at::from_blob(
      tensor.data_ptr(), tensor.sizes(), tensor.strides(), [tensor](void*) {},
      at::TensorOptions().dtype(tensor.dtype()));
}

Tensor empty(c10::SymIntArrayRef size, std::optional<c10::ScalarType> dtype,
             std::optional<c10::Layout>, std::optional<c10::Device> device, std::optional<bool>,
             std::optional<c10::MemoryFormat> format) {
  c10::DeviceGuard guard(device.value_or(c10::Device(kType, current)));
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &memory,
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                     std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
                     std::optional<c10::Device> device, std::optional<bool>) {
  c10::DeviceGuard guard(device.value_or(c10::Device(kType, current)));
  return at::detail::empty_strided_generic(
      C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), &memory,
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype));
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool) {
  synchronize();
  (to.is_cpu() ? to : on_host(to)).copy_(from.is_cpu() ? from : on_host(from));
  return to;
}

const Tensor& resize(const Tensor& self, c10::SymIntArrayRef size,
                     std::optional<c10::MemoryFormat>) {
  auto* changed = self.unsafeGetTensorImpl();
  auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  size_t bytes = c10::multiply_integers(sizes) * self.itemsize();
  c10::Storage storage = self.storage();
  if (bytes > storage.nbytes()) resize_storage(storage, bytes);
  changed->set_sizes_contiguous(sizes);
  return self;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

Tensor as_strided(const Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                  std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(
      self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
      offset ? std::optional(offset->expect_int()) : std::nullopt);
}

Tensor view(const Tensor& self, c10::SymIntArrayRef size) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}

Tensor reshape_alias(const Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size),
                                    C10_AS_INTARRAYREF_SLOW(stride));
}

Tensor& set_storage(Tensor& self, c10::Storage storage, c10::SymInt offset,
                    c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return at::native::set_storage_cpu_(self, std::move(storage), offset.expect_int(),
                                      C10_AS_INTARRAYREF_SLOW(size),
                                      C10_AS_INTARRAYREF_SLOW(stride));
}

void on_host_instead(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  synchronize();
  at::native::cpu_fallback(operation, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("resize_", resize);
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("set_.source_Storage_storage_offset", set_storage);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_host_instead>());
}

TORCH_LIBRARY(fake_device, m) {
  m.def("on_host(Tensor tensor) -> Tensor", on_host);
}

}  // namespace

/// Memory comes from the functions of `path` that begin with `prefix`.
extern "C" void fake_open(const char* path, const char* prefix) {
  void* library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  TORCH_CHECK(library != nullptr, dlerror());
  auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        dlsym(library, (std::string(prefix) + name).c_str()));
  };
  find(runtime.allocate, "Malloc");
  find(runtime.release, "Free");
  find(runtime.set_device, "SetDevice");
  c10::SetAllocator(kType, &memory);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
}

extern "C" void fake_set_device(int index) {
  Guard().setDevice({kType, static_cast<c10::DeviceIndex>(index)});
}
extern "C" int fake_device() {
  return current;
}
extern "C" size_t fake_most_allocated() {
  return most_allocated;
}
extern "C" void fake_enter() {
  std::scoped_lock lock(mutex);
  ++pending;
}
extern "C" void fake_leave() {
  std::scoped_lock lock(mutex);
  if (--pending == 0) ended.notify_all();
}
extern "C" void fake_synchronize() {
  synchronize();
}
