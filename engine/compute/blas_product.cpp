// The matrix product of NVIDIA's cuBLASLt. The library is loaded when the first product is created;
// the build requires neither the toolkit nor its headers. The numbers of types and attributes are
// those of cublas_api.h, cublasLt.h and library_types.h, unchanged since CUDA 11.

#include "compute/blas_product.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "compute/tiled_matrices.hpp"
#include "core/error.hpp"
#include "core/library.hpp"

namespace cclmark {
namespace {

using Status = int;

constexpr Status kNotSupported = 15;
constexpr int kCompute32F = 68, kReal32F = 0, kReal16BF = 14;
constexpr int kPreferredWorkspaceBytes = 1, kPreferredReductions = 3;
/// Partial sums are added in float32, so that the result is exact for any number of them.
constexpr uint32_t kReduceInComputeType = 2;
/// From CUDA 12 on, a version has six digits: 120804 is 12.8.4. Those of CUDA 11 are ambiguous.
constexpr size_t kFirstOfSixDigits = 120000;
/// The workspace that cuBLAS itself allocates on Hopper. Older architectures require less.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

/// cublasLtMatmulHeuristicResult_t, which begins with the algorithm.
struct Heuristic {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Heuristic) == 96);

struct Blas {
  /// `driver`: the version of CUDA that the driver supports. Libraries of a newer major version do
  /// not work with it and are not tried.
  explicit Blas(const std::string& driver) : library(opened(driver)) {}

  Library library;

#define CCLMARK_BLAS(name, symbol, ...) \
  Status (*name)(__VA_ARGS__) = library.require<Status(__VA_ARGS__)>(symbol)
  CCLMARK_BLAS(create, "cublasLtCreate", void**);
  CCLMARK_BLAS(destroy, "cublasLtDestroy", void*);
  CCLMARK_BLAS(create_operation, "cublasLtMatmulDescCreate", void**, int, int);
  CCLMARK_BLAS(destroy_operation, "cublasLtMatmulDescDestroy", void*);
  CCLMARK_BLAS(create_layout, "cublasLtMatrixLayoutCreate", void**, int, uint64_t, uint64_t,
               int64_t);
  CCLMARK_BLAS(destroy_layout, "cublasLtMatrixLayoutDestroy", void*);
  CCLMARK_BLAS(create_preference, "cublasLtMatmulPreferenceCreate", void**);
  CCLMARK_BLAS(set_preference, "cublasLtMatmulPreferenceSetAttribute", void*, int, const void*,
               size_t);
  CCLMARK_BLAS(destroy_preference, "cublasLtMatmulPreferenceDestroy", void*);
  CCLMARK_BLAS(find_algorithms, "cublasLtMatmulAlgoGetHeuristic", void*, void*, void*, void*, void*,
               void*, void*, int, Heuristic*, int*);
  CCLMARK_BLAS(multiply, "cublasLtMatmul", void*, void*, const void*, const void*, void*,
               const void*, void*, const void*, const void*, void*, void*, void*, const void*,
               void*, size_t, void*);
#undef CCLMARK_BLAS
  const char* (*status_text)(Status) =
      library.optional<const char*(Status)>("cublasLtGetStatusString");
  size_t (*version)() = library.optional<size_t()>("cublasLtGetVersion");

  static constexpr const char* kVariable = "CCLMARK_CUBLASLT_LIBRARY";

  static Library opened(const std::string& driver) {
    std::vector<std::string> usable;
    std::vector<Library::Refused> refused;
    const int newest = std::atoi(driver.c_str());
    for (const std::string& name : candidates()) {
      const int version = major_version(name);
      // A chosen file is tried in any case, and so are all files if the driver's version is
      // unknown.
      if (newest == 0 || version <= newest || setting(kVariable) != nullptr) {
        usable.push_back(name);
      } else {
        refused.push_back({name, "not tried: it is for CUDA " + std::to_string(version) +
                                     ", and the driver supports CUDA " + driver});
      }
    }
    return Library::open(
        "cuBLASLt, which multiplies matrices on CUDA devices (pip install nvidia-cublas, or "
        "nvidia-cublas-cu12 for CUDA 12; torch and CUDA toolkits contain it),",
        usable, kVariable, Library::Symbols::for_us, refused);
  }

  /// The first number after ".so." in the name of a file, 0 without one.
  static int major_version(const std::string& name) {
    constexpr std::string_view kSuffix = ".so.";
    const size_t at = name.rfind(kSuffix);
    return at == std::string::npos ? 0 : std::atoi(name.c_str() + at + kSuffix.size());
  }

  static std::vector<std::string> candidates() {
    if (const char* chosen = setting(kVariable)) return {chosen};
    std::vector<std::string> found = setting_list("CCLMARK_CUBLASLT_WHEELS");
    for (const char* directory : {"", "/usr/local/cuda/lib64/"}) {
      for (const char* name :
           {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so"}) {
        found.push_back(std::string(directory) + name);
      }
    }
    return found;
  }

  std::string describe(const char* call, Status code) const {
    return Error::describe(call, code, status_text != nullptr ? status_text(code) : "");
  }
  void check(Status code, const char* call) const {
    if (code == kNotSupported) throw UnsupportedError(describe(call, code));
    if (code != 0) throw Error(describe(call, code));
  }
};

/// The library that the first call loads.
const Blas& load_blas(const Device& device) {
  static const Blas loaded(device.info().driver_version);
  return loaded;
}

/// An object of the library, destroyed with its owner.
class Owned {
 public:
  Owned(void* object, Status (*destroy)(void*)) : object_(object), destroy_(destroy) {}
  ~Owned() { destroy_(object_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  void* get() const { return object_; }

 private:
  void* object_;
  Status (*destroy_)(void*);
};

template <typename... Parameters, typename... Arguments>
void* created(const Blas& blas, Status (*create)(void**, Parameters...), const char* call,
              Arguments... arguments) {
  void* object = nullptr;
  blas.check(create(&object, static_cast<Parameters>(arguments)...), call);
  return object;
}

class BlasProduct final : public Compute {
 public:
  BlasProduct(Device& device, size_t order)
      : blas_(load_blas(device)),
        library_(created(blas_, blas_.create, "cublasLtCreate"), blas_.destroy),
        operation_(created(blas_, blas_.create_operation, "cublasLtMatmulDescCreate", kCompute32F,
                           kReal32F),
                   blas_.destroy_operation),
        layout_(created(blas_, blas_.create_layout, "cublasLtMatrixLayoutCreate", kReal16BF, order,
                        order, order),
                blas_.destroy_layout),
        matrices_(device, order, MatrixType::bfloat16),
        workspace_(device, kWorkspaceBytes) {
    Owned preference(created(blas_, blas_.create_preference, "cublasLtMatmulPreferenceCreate"),
                     blas_.destroy_preference);
    prefer(preference, kPreferredWorkspaceBytes, kWorkspaceBytes);
    prefer(preference, kPreferredReductions, kReduceInComputeType);
    int found = 0;
    blas_.check(
        blas_.find_algorithms(library_.get(), operation_.get(), layout_.get(), layout_.get(),
                              layout_.get(), layout_.get(), preference.get(), 1, &chosen_, &found),
        "cublasLtMatmulAlgoGetHeuristic");
    if (found == 0) throw UnsupportedError("cuBLASLt has no algorithm for this product");
    blas_.check(chosen_.state, "cublasLtMatmulAlgoGetHeuristic");
    multiply_once(device);
  }

  void enqueue(void* stream) override {
    constexpr float kOne = 1, kZero = 0;
    std::byte* product = matrices_.product();
    blas_.check(blas_.multiply(library_.get(), operation_.get(), &kOne, matrices_.first(),
                               layout_.get(), matrices_.second(), layout_.get(), &kZero, product,
                               layout_.get(), product, layout_.get(), chosen_.algorithm,
                               workspace_.data(), workspace_.size_bytes(), stream),
                "cublasLtMatmul");
  }

  double work() const override { return product_work(matrices_.order()); }

  std::string implementation() const override {
    size_t number = blas_.version != nullptr ? blas_.version() : 0;
    if (number < kFirstOfSixDigits) return "cuBLASLt";
    return "cuBLASLt " + std::to_string(number / 10000) + "." +
           std::to_string(number % 10000 / 100) + "." + std::to_string(number % 100);
  }
  std::string path() const override { return blas_.library.path(); }

  void poison(void* stream) override { matrices_.poison(stream); }
  ComputeFinding check(void* stream, const std::function<void()>& wait) override {
    return matrices_.check(stream, wait);
  }

 private:
  /// cublasLtMatmul may refuse an algorithm that the heuristic has returned.
  void multiply_once(Device& device) {
    Stream stream(device);
    BlasProduct::enqueue(stream.get());
    poison(stream.get());
    wait_until_idle(device, stream.get());
  }

  template <typename Value>
  void prefer(const Owned& preference, int attribute, const Value& value) const {
    blas_.check(blas_.set_preference(preference.get(), attribute, &value, sizeof(value)),
                "cublasLtMatmulPreferenceSetAttribute");
  }

  const Blas& blas_;
  Owned library_, operation_, layout_;
  TiledMatrices matrices_;
  Buffer workspace_;
  Heuristic chosen_{};
};

}  // namespace

std::unique_ptr<Compute> make_blas_product(Device& device, size_t order) {
  return std::make_unique<BlasProduct>(device, order);
}

}  // namespace cclmark
