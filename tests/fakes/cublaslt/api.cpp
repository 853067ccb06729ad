// cuBLASLt's interface, as far as the engine uses it: products of bfloat16 matrices that are really
// computed, on the streams of the fake libcuda.

#include <cstring>
#include <memory>

#include "common/environment.hpp"
#include "common/export.hpp"
#include "common/handle_table.hpp"
#include "cublaslt/objects.hpp"
#include "cublaslt/product.hpp"
#include "nccl/abi.hpp"
#include "nccl/runtime.hpp"

namespace fake_cublaslt {
namespace {

constexpr size_t kVersion = 120804;
constexpr size_t kNeededWorkspaceBytes = 4096;
constexpr int kOldestArchitecture = 80;  // with bfloat16

template <typename T>
fake_common::HandleTable<T>& table(uint64_t kind) {
  static auto* objects = new fake_common::HandleTable<T>(kind);
  return *objects;
}
auto& libraries() {
  return table<Library>(32);
}
auto& operations() {
  return table<Operation>(33);
}
auto& layouts() {
  return table<Layout>(34);
}
auto& preferences() {
  return table<Preference>(35);
}

template <typename T>
int destroyed(fake_common::HandleTable<T>& objects, void* handle) {
  return objects.take(handle) != nullptr ? kSuccess : kInvalidValue;
}

/// Whether two factors, the addend and the result fit together.
bool fit(const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  return a.is_possible() && b.is_possible() && d.is_possible() && c == d && a.columns == b.rows &&
         a.rows == d.rows && b.columns == d.columns;
}

/// Whether memory of the device holds the whole matrix.
bool holds(const void* memory, const Layout& layout) {
  try {
    fake_nccl::Runtime::instance().locate(memory, layout.elements() * sizeof(uint16_t));
    return true;
  } catch (const fake_nccl::Failure&) {
    return false;
  }
}

}  // namespace

FAKE_API const char* cublasLtGetStatusString(int status) {
  switch (status) {
    case kSuccess:
      return "success";
    case kNotInitialized:
      return "the library was not initialized";
    case kInvalidValue:
      return "an unsupported value or parameter was passed to the function";
    case kArchitectureMismatch:
      return "the function requires an architectural feature absent from the architecture of the "
             "device";
    case kNotSupported:
      return "the functionality requested is not supported";
    default:
      return "an internal operation failed";
  }
}

FAKE_API size_t cublasLtGetVersion() {
  return kVersion;
}

FAKE_API int cublasLtCreate(void** library) {
  if (library == nullptr) return kInvalidValue;
  *library = libraries().add(std::make_shared<Library>());
  return kSuccess;
}
FAKE_API int cublasLtDestroy(void* library) {
  return destroyed(libraries(), library);
}

FAKE_API int cublasLtMatmulDescCreate(void** operation, int compute, int scale) {
  if (operation == nullptr) return kInvalidValue;
  if (compute != kCompute32F || scale != kReal32F) return kNotSupported;
  *operation = operations().add(std::make_shared<Operation>(Operation{compute, scale}));
  return kSuccess;
}
FAKE_API int cublasLtMatmulDescDestroy(void* operation) {
  return destroyed(operations(), operation);
}

FAKE_API int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t columns,
                                        int64_t stride) {
  Layout fresh{type, rows, columns, stride};
  if (layout == nullptr || !fresh.is_possible()) return kInvalidValue;
  *layout = layouts().add(std::make_shared<Layout>(fresh));
  return kSuccess;
}
FAKE_API int cublasLtMatrixLayoutDestroy(void* layout) {
  return destroyed(layouts(), layout);
}

FAKE_API int cublasLtMatmulPreferenceCreate(void** preference) {
  if (preference == nullptr) return kInvalidValue;
  *preference = preferences().add(std::make_shared<Preference>());
  return kSuccess;
}
FAKE_API int cublasLtMatmulPreferenceDestroy(void* preference) {
  return destroyed(preferences(), preference);
}
FAKE_API int cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute,
                                                  const void* value, size_t bytes) {
  auto found = preferences().find(preference);
  if (found == nullptr || value == nullptr) return kInvalidValue;
  if (attribute == kWorkspaceBytes && bytes == sizeof(found->workspace_bytes)) {
    std::memcpy(&found->workspace_bytes, value, bytes);
    return kSuccess;
  }
  if (attribute == kReductions && bytes == sizeof(found->reductions)) {
    std::memcpy(&found->reductions, value, bytes);
    return kSuccess;
  }
  return kInvalidValue;
}

FAKE_API int cublasLtMatmulAlgoGetHeuristic(void* library, void* operation, void* a, void* b,
                                            void* c, void* d, void* preference, int wanted,
                                            Heuristic* results, int* number) {
  auto first = layouts().find(a), second = layouts().find(b);
  auto addend = layouts().find(c), result = layouts().find(d);
  auto preferred = preferences().find(preference);
  if (libraries().find(library) == nullptr || operations().find(operation) == nullptr ||
      first == nullptr || second == nullptr || addend == nullptr || result == nullptr ||
      preferred == nullptr || wanted < 1 || results == nullptr || number == nullptr) {
    return kInvalidValue;
  }
  if (!fit(*first, *second, *addend, *result)) return kInvalidValue;
  *number = 0;
  if (fake_nccl::Runtime::instance().architecture() < kOldestArchitecture) return kNotSupported;
  if (preferred->workspace_bytes < kNeededWorkspaceBytes) return kNotSupported;
  results[0] = {};
  results[0].algorithm = {kMark,          result->rows,          result->columns,
                          first->columns, kNeededWorkspaceBytes, {}};
  results[0].workspace_bytes = kNeededWorkspaceBytes;
  *number = 1;
  return kSuccess;
}

FAKE_API int cublasLtMatmul(void* library, void* operation, const void* alpha, const void* a,
                            void* a_layout, const void* b, void* b_layout, const void* beta,
                            const void* c, void* c_layout, void* d, void* d_layout,
                            const void* algorithm, void* workspace, size_t workspace_bytes,
                            void* stream) {
  auto first = layouts().find(a_layout), second = layouts().find(b_layout);
  auto addend = layouts().find(c_layout), result = layouts().find(d_layout);
  if (libraries().find(library) == nullptr || operations().find(operation) == nullptr ||
      alpha == nullptr || beta == nullptr || algorithm == nullptr || first == nullptr ||
      second == nullptr || addend == nullptr || result == nullptr || workspace == nullptr) {
    return kInvalidValue;
  }
  Algorithm chosen;
  std::memcpy(&chosen, algorithm, sizeof(chosen));
  if (chosen.mark != kMark || chosen.rows != result->rows || chosen.columns != result->columns ||
      chosen.inner != first->columns || chosen.workspace_bytes > workspace_bytes) {
    return kInvalidValue;
  }
  if (!fit(*first, *second, *addend, *result) || c != d) return kInvalidValue;
  if (!holds(a, *first) || !holds(b, *second) || !holds(d, *result)) return kInvalidValue;
  const int device = fake_nccl::Runtime::instance().current_device();
  if (fake_common::environment_is_rank("CCLMARK_FAKE_CUBLASLT_UNSUPPORTED", device)) {
    return kNotSupported;
  }
  auto product = std::make_unique<Product>();
  std::memcpy(&product->alpha, alpha, sizeof(float));
  std::memcpy(&product->beta, beta, sizeof(float));
  product->a = static_cast<const uint16_t*>(a);
  product->b = static_cast<const uint16_t*>(b);
  product->d = static_cast<uint16_t*>(d);
  product->first = *first;
  product->second = *second;
  product->result = *result;
  product->device = device;
  try {
    fake_nccl::Runtime::instance().enqueue(
        stream, [](void* one) { static_cast<Product*>(one)->compute(); }, product.get(),
        [](void* one) { delete static_cast<Product*>(one); });
  } catch (const fake_nccl::Failure&) {
    return kInternalError;
  }
  product.release();
  return kSuccess;
}

}  // namespace fake_cublaslt
