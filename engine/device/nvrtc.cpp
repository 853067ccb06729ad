#include "device/nvrtc.hpp"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "core/library.hpp"
#include "kernels/sources.hpp"

namespace cclmark {
namespace {

namespace fs = std::filesystem;

struct Nvrtc {
  using Program = void*;
  Library library = Library::open("NVRTC (run-time CUDA compiler)", candidates(), kVariable);

#define CCLMARK_NVRTC(name, symbol, ...) \
  int (*name)(__VA_ARGS__) = library.require<int(__VA_ARGS__)>(symbol)
  CCLMARK_NVRTC(create, "nvrtcCreateProgram", Program*, const char*, const char*, int,
                const char* const*, const char* const*);
  CCLMARK_NVRTC(compile, "nvrtcCompileProgram", Program, int, const char* const*);
  CCLMARK_NVRTC(log_size, "nvrtcGetProgramLogSize", Program, size_t*);
  CCLMARK_NVRTC(log, "nvrtcGetProgramLog", Program, char*);
  CCLMARK_NVRTC(cubin_size, "nvrtcGetCUBINSize", Program, size_t*);
  CCLMARK_NVRTC(cubin, "nvrtcGetCUBIN", Program, char*);
  CCLMARK_NVRTC(destroy, "nvrtcDestroyProgram", Program*);
#undef CCLMARK_NVRTC
  const char* (*error_string)(int) = library.require<const char*(int)>("nvrtcGetErrorString");

  static constexpr const char* kVariable = "CCLMARK_NVRTC_LIBRARY";

  static std::vector<std::string> candidates() {
    if (const char* chosen = setting(kVariable)) return {chosen};
    // First the wheels that the Python side has found, then the loader's path, then the toolkit.
    std::vector<std::string> found = setting_list("CCLMARK_NVRTC_WHEELS");
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"})
      found.emplace_back(name);
    for (const char* name : {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"})
      found.push_back(std::string("/usr/local/cuda/lib64/") + name);
    return found;
  }

  void check(int code, const char* call) const {
    if (code != 0) throw Error(Error::describe(call, code, error_string(code)));
  }
};

const Nvrtc& nvrtc() {
  static const Nvrtc loaded;
  return loaded;
}

std::string text_of(std::string_view source) {
  for (const kernels::Source& file : kernels::kSources) {
    if (file.name == source) return std::string(kernels::kDialect) + file.text;
  }
  throw Error("unknown kernel source " + std::string(source));
}

std::string compile(const Nvrtc& compiler, std::string_view source, int architecture) {
  Nvrtc::Program program = nullptr;
  std::string file = std::string(source) + ".cu";
  compiler.check(
      compiler.create(&program, text_of(source).c_str(), file.c_str(), 0, nullptr, nullptr),
      "nvrtcCreateProgram");
  std::string target = "--gpu-architecture=sm_" + std::to_string(architecture);
  const char* options[] = {target.c_str(), "--std=c++17"};
  int code = compiler.compile(program, 2, options);
  std::string output;
  size_t size = 0;
  if (code != 0) {
    compiler.log_size(program, &size);
    output.resize(size);
    compiler.log(program, output.data());
    output.resize(std::strlen(output.c_str()));  // the size counts the final NUL
  } else {
    compiler.check(compiler.cubin_size(program, &size), "nvrtcGetCUBINSize");
    output.resize(size);
    compiler.check(compiler.cubin(program, output.data()), "nvrtcGetCUBIN");
  }
  compiler.destroy(&program);
  if (code != 0) {
    throw Error(Error::describe("nvrtcCompileProgram(" + target + ")", code,
                                std::string(compiler.error_string(code)) + "\n" + output));
  }
  return output;
}

fs::path cache_directory() {
  // An empty one is no directory: nothing is kept then.
  if (const char* chosen = std::getenv("CCLMARK_CACHE_DIR")) return chosen;
  if (const char* cache = setting("XDG_CACHE_HOME")) return fs::path(cache) / "cclmark";
  if (const char* home = setting("HOME")) return fs::path(home) / ".cache" / "cclmark";
  return {};
}

uint64_t fnv1a(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

/// A file name that changes with what the code depends on: not with the compiler, so that a run
/// with a full cache never has to load it.
std::string cache_name(std::string_view source, int architecture) {
  char name[64];
  std::snprintf(name, sizeof(name), "-sm_%d-%016llx.cubin", architecture,
                static_cast<unsigned long long>(fnv1a(text_of(source))));
  return std::string(source) + name;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Written beside and renamed, so that ranks that compile at once never read half a file. A cache
/// that cannot be written only costs time, so that is no error.
void store(const fs::path& path, const std::string& content) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  fs::path partial = path;
  partial += ".";
  partial += std::to_string(getpid());
  std::ofstream file(partial, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (file) fs::rename(partial, path, ignored);
  fs::remove(partial, ignored);
}

}  // namespace

std::string nvrtc_path() {
  return nvrtc().library.path();
}

std::string compile_for_cuda(std::string_view source, int architecture, KernelCache cache) {
  fs::path directory = cache_directory();
  if (directory.empty()) return compile(nvrtc(), source, architecture);
  fs::path path = directory / cache_name(source, architecture);
  std::string image = cache == KernelCache::use ? read_file(path) : "";
  if (image.empty()) {
    image = compile(nvrtc(), source, architecture);
    store(path, image);
  }
  return image;
}

}  // namespace cclmark
