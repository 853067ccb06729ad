// NVRTC's interface, as far as the engine uses it.

#include <cstring>
#include <new>

#include "common/export.hpp"
#include "common/handle_table.hpp"
#include "nvrtc/program.hpp"

namespace fake_nvrtc {
namespace {

fake_common::HandleTable<Program>& programs() {
  static auto* table = new fake_common::HandleTable<Program>(16);
  return *table;
}

template <typename Body>
Result with_program(void* handle, Body body) {
  std::shared_ptr<Program> program = programs().find(handle);
  if (program == nullptr) return kInvalidProgram;
  try {
    return body(*program);
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  }
}

}  // namespace

FAKE_API const char* nvrtcGetErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "NVRTC_SUCCESS";
    case kOutOfMemory:
      return "NVRTC_ERROR_OUT_OF_MEMORY";
    case kInvalidInput:
      return "NVRTC_ERROR_INVALID_INPUT";
    case kInvalidProgram:
      return "NVRTC_ERROR_INVALID_PROGRAM";
    case kInvalidOption:
      return "NVRTC_ERROR_INVALID_OPTION";
    case kCompilation:
      return "NVRTC_ERROR_COMPILATION";
    default:
      return "NVRTC_ERROR unknown";
  }
}

/// Headers are refused: nothing here includes any.
FAKE_API int nvrtcCreateProgram(void** program, const char* source, const char* name,
                                int header_count, const char* const* headers,
                                const char* const* include_names) {
  if (program == nullptr || source == nullptr) return kInvalidInput;
  if (header_count != 0 || headers != nullptr || include_names != nullptr) return kInvalidInput;
  auto fresh = std::make_shared<Program>();
  fresh->source = source;
  fresh->name = name != nullptr ? name : "default_program";
  *program = programs().add(std::move(fresh));
  return kSuccess;
}

FAKE_API int nvrtcDestroyProgram(void** program) {
  if (program == nullptr || programs().take(*program) == nullptr) return kInvalidProgram;
  *program = nullptr;
  return kSuccess;
}

FAKE_API int nvrtcCompileProgram(void* program, int option_count, const char* const* options) {
  if (option_count < 0 || (option_count > 0 && options == nullptr)) return kInvalidInput;
  return with_program(program, [&](Program& compiled) {
    return compiled.compile(std::vector<std::string>(options, options + option_count));
  });
}

FAKE_API int nvrtcGetProgramLogSize(void* program, size_t* bytes) {
  if (bytes == nullptr) return kInvalidInput;
  return with_program(program, [&](Program& queried) {
    *bytes = queried.log.size() + 1;
    return kSuccess;
  });
}

FAKE_API int nvrtcGetProgramLog(void* program, char* log) {
  if (log == nullptr) return kInvalidInput;
  return with_program(program, [&](Program& queried) {
    std::memcpy(log, queried.log.c_str(), queried.log.size() + 1);
    return kSuccess;
  });
}

FAKE_API int nvrtcGetCUBINSize(void* program, size_t* bytes) {
  if (bytes == nullptr) return kInvalidInput;
  return with_program(program, [&](Program& queried) {
    if (!queried.compiled) return kInvalidProgram;
    *bytes = queried.image.size();
    return kSuccess;
  });
}

FAKE_API int nvrtcGetCUBIN(void* program, char* image) {
  if (image == nullptr) return kInvalidInput;
  return with_program(program, [&](Program& queried) {
    if (queried.image.empty()) return kInvalidProgram;
    std::memcpy(image, queried.image.data(), queried.image.size());
    return kSuccess;
  });
}

}  // namespace fake_nvrtc
