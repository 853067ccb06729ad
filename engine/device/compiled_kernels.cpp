#include "device/compiled_kernels.hpp"

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

constexpr unsigned kThreadsPerBlock = 512;
constexpr unsigned kBlocksPerMultiprocessor = 4;

/// The text of a source, as a compiler gets it.
std::string text_of(std::string_view source, const CompilerKind& kind) {
  for (const kernels::Source& file : kernels::kSources) {
    if (file.name != source) continue;
    return std::string(kind.portable ? "#define CCLMARK_PORTABLE\n" : "") + kernels::kDialect +
           file.text;
  }
  throw Error("unknown kernel source " + std::string(source));
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
std::string cache_name(std::string_view source, const std::string& target,
                       const std::string& text) {
  char hash[64];
  std::snprintf(hash, sizeof(hash), "-%016llx.cubin", static_cast<unsigned long long>(fnv1a(text)));
  return std::string(source) + "-" + target + hash;
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

std::vector<std::string> nvrtc_files() {
  // First the wheels that the Python side has found, then the loader's path, then the toolkit.
  std::vector<std::string> found = setting_list("CCLMARK_NVRTC_WHEELS");
  for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"})
    found.emplace_back(name);
  for (const char* name : {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"})
    found.push_back(std::string("/usr/local/cuda/lib64/") + name);
  return found;
}

}  // namespace

const char* kernel_source_of(std::string_view kernel) {
  if (kernel == "cclmark_fill" || kernel == "cclmark_verify" || kernel == "cclmark_space") {
    return "pattern";
  }
  if (kernel == "cclmark_reduce" || kernel == "cclmark_take") return "reduce";
  if (kernel == "cclmark_clock" || kernel == "cclmark_pause" || kernel == "cclmark_traffic") {
    return "clock";
  }
  if (kernel.ends_with("tile") || kernel.ends_with("tiles") || kernel.ends_with("triad")) {
    return "compute";
  }
  return "transfer";
}

Grid grid_for(size_t items, int multiprocessors) {
  size_t wanted = (items + kThreadsPerBlock - 1) / kThreadsPerBlock;
  size_t most = static_cast<size_t>(multiprocessors) * kBlocksPerMultiprocessor;
  auto blocks = static_cast<unsigned>(wanted < 1 ? 1 : wanted < most ? wanted : most);
  return {blocks, kThreadsPerBlock, 0};
}

struct RuntimeCompiler::Functions {
  using Program = void*;
  using GetSize = int(Program, size_t*);
  using GetBytes = int(Program, char*);

  Functions(const CompilerKind& which, const std::vector<std::string>& files)
      : kind(which), library(Library::open(which.what, candidates(which, files), which.variable)) {
    for (const char* image : kind.images) {
      if (image == nullptr) break;
      auto* size =
          library.optional<GetSize>(symbol_of("Get" + (image + std::string("Size"))).c_str());
      auto* bytes = library.optional<GetBytes>(symbol_of(std::string("Get") + image).c_str());
      if (size != nullptr && bytes != nullptr) images.push_back({image, size, bytes});
    }
    if (images.empty()) {
      require<GetSize>("Get" + (kind.images[0] + std::string("Size")));  // raises the error
    }
  }

  struct Image {
    std::string name;
    GetSize* size;
    GetBytes* bytes;
  };

  const CompilerKind& kind;
  Library library;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) =
      require<int(Program*, const char*, const char*, int, const char* const*, const char* const*)>(
          "CreateProgram");
  int (*build)(Program, int, const char* const*) =
      require<int(Program, int, const char* const*)>("CompileProgram");
  GetSize* log_size = require<GetSize>("GetProgramLogSize");
  GetBytes* log = require<GetBytes>("GetProgramLog");
  int (*destroy)(Program*) = require<int(Program*)>("DestroyProgram");
  const char* (*error_string)(int) = require<const char*(int)>("GetErrorString");
  std::vector<Image> images;

  std::string compile(const std::string& text, const std::string& file,
                      const std::vector<std::string>& options) const {
    std::vector<const char*> words;
    std::string spelled;
    for (const std::string& option : options) {
      words.push_back(option.c_str());
      spelled += (spelled.empty() ? "" : " ") + option;
    }
    struct Owner {
      const Functions& functions;
      Program program = nullptr;
      ~Owner() {
        if (program != nullptr) functions.destroy(&program);
      }
    } owner{*this};
    check(create(&owner.program, text.c_str(), file.c_str(), 0, nullptr, nullptr), "CreateProgram");
    int code = build(owner.program, static_cast<int>(words.size()),
                     words.empty() ? nullptr : words.data());
    if (code != 0) {
      throw Error(Error::describe(symbol_of("CompileProgram(" + spelled + ")"), code,
                                  error_string(code) + ("\n" + log_of(owner.program))));
    }
    // A compiler may have nothing of a better kind for the target.
    for (const Image& image : images) {
      size_t size = 0;
      check(image.size(owner.program, &size), "Get" + image.name + "Size");
      std::string output(size, '\0');
      if (size > 0) check(image.bytes(owner.program, output.data()), "Get" + image.name);
      if (size > 0) return output;
    }
    throw Error(library.path() + " compiled " + file + " to nothing");
  }

 private:
  static std::vector<std::string> candidates(const CompilerKind& kind,
                                             const std::vector<std::string>& files) {
    if (const char* chosen = setting(kind.variable)) return {chosen};
    return files;
  }
  std::string symbol_of(const std::string& name) const { return kind.prefix + name; }
  template <typename Function>
  Function* require(const std::string& name) const {
    return library.require<Function>(symbol_of(name).c_str());
  }
  void check(int code, const std::string& call) const {
    if (code != 0) throw Error(Error::describe(symbol_of(call), code, error_string(code)));
  }
  std::string log_of(Program program) const {
    size_t size = 0;
    if (log_size(program, &size) != 0) return "";
    std::string text(size, '\0');
    if (size == 0 || log(program, text.data()) != 0) return "";
    return text.c_str();  // the size counts the final NUL
  }
};

RuntimeCompiler::RuntimeCompiler(CompilerKind kind, std::function<std::vector<std::string>()> files)
    : kind_(std::move(kind)), files_(std::move(files)) {}

RuntimeCompiler::~RuntimeCompiler() = default;

const RuntimeCompiler::Functions& RuntimeCompiler::functions() {
  std::call_once(loading_, [this] { functions_ = std::make_unique<Functions>(kind_, files_()); });
  return *functions_;
}

const std::string& RuntimeCompiler::path() {
  return functions().library.path();
}

std::string RuntimeCompiler::compile(std::string_view source, const std::string& target,
                                     const std::vector<std::string>& options, KernelCache cache) {
  std::string text = text_of(source, kind_), file = std::string(source) + ".cu";
  fs::path directory = cache_directory();
  if (directory.empty()) return functions().compile(text, file, options);
  fs::path path = directory / cache_name(source, target, text);
  std::string image = cache == KernelCache::use ? read_file(path) : "";
  if (image.empty()) {
    image = functions().compile(text, file, options);
    store(path, image);
  }
  return image;
}

RuntimeCompiler& nvrtc() {
  static RuntimeCompiler compiler({.what = "NVRTC (run-time CUDA compiler)",
                                   .prefix = "nvrtc",
                                   .variable = "CCLMARK_NVRTC_LIBRARY",
                                   .images = {"CUBIN"},
                                   .portable = false},
                                  nvrtc_files);
  return compiler;
}

std::string compile_for_cuda(std::string_view source, int architecture, KernelCache cache) {
  std::string target = "sm_" + std::to_string(architecture);
  return nvrtc().compile(source, target, {"--gpu-architecture=" + target, "--std=c++17"}, cache);
}

}  // namespace cclmark
