#include "nvrtc/compiler.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string_view>

#include "nvrtc/texts.hpp"

namespace fake_nvrtc {
namespace {

namespace fs = std::filesystem;

/// What the preprocessor leaves where the source says __global__.
constexpr char kGlobalMark[] = "cclmark_fake_global";

/// A directory that goes with its owner.
class Workplace {
 public:
  Workplace() {
    std::string pattern = (fs::temp_directory_path() / "cclmark-fake-nvrtc-XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~Workplace() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  bool exists() const { return !path_.empty(); }
  std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::vector<std::string> compiler_command() {
  const char* chosen = std::getenv("CXX");
  std::istringstream words(chosen != nullptr && *chosen != '\0' ? chosen : "c++");
  return {std::istream_iterator<std::string>(words), std::istream_iterator<std::string>()};
}

/// The environment without LD_PRELOAD: what a test loads into this process, such as a sanitizer, is
/// not for the compiler.
std::vector<char*> compiler_environment() {
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "LD_PRELOAD=", 11) != 0) variables.push_back(*variable);
  }
  variables.push_back(nullptr);
  return variables;
}

/// Runs the compiler; what it says is added to `log`.
bool run_compiler(const std::vector<std::string>& arguments, const Workplace& place,
                  std::string& log) {
  std::vector<std::string> command = compiler_command();
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);

  std::string said = place.file("said.txt");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  int error = posix_spawnp(&child, words[0], &actions, nullptr, words.data(),
                           compiler_environment().data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    log += "cannot run " + command[0] + ": " + std::strerror(error) + "\n";
    return false;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  log += read_file(said);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// The names, keywords and numbers of a source, without what stands between them.
std::vector<std::string_view> words_of(std::string_view text) {
  auto of_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  std::vector<std::string_view> words;
  for (size_t end = 0; end < text.size();) {
    size_t begin = end;
    while (end < text.size() && of_word(text[end])) ++end;
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    while (end < text.size() && !of_word(text[end])) ++end;
  }
  return words;
}

/// The names of the kernels in preprocessed source.
std::set<std::string> kernels_in(const std::vector<std::string_view>& words) {
  std::set<std::string> names;
  for (size_t i = 0; i + 2 < words.size(); ++i) {
    if (words[i] == kGlobalMark && words[i + 1] == "void") names.emplace(words[i + 2]);
  }
  return names;
}

/// The first word of the source that a loop over threads cannot honour, or nothing.
std::string unsupported_word(const std::vector<std::string_view>& words) {
  for (std::string_view word : words) {
    if (word == "__shared__" || word == "__syncwarp" || word.starts_with("__syncthreads") ||
        word.starts_with("__shfl")) {
      return std::string(word);
    }
  }
  return {};
}

}  // namespace

Compilation compile_for_host(const std::string& source, const std::string& name,
                             const std::vector<std::string>& options) {
  Compilation result;
  Workplace place;
  if (!place.exists()) {
    result.log = "cannot make a temporary directory\n";
    return result;
  }
  std::string prelude = place.file("prelude.hpp"), kernel = place.file("kernel.cpp");
  std::string named = "#line 1 \"" + name + "\"\n" + source + "\n";
  write_file(prelude, kPrelude);
  write_file(kernel, named);

  std::vector<std::string> arguments = {"-w", "-x", "c++", "-include", prelude};
  arguments.insert(arguments.end(), options.begin(), options.end());
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), arguments.begin(), arguments.end());
    more.push_back(kernel);
    return more;
  };

  std::string preprocessed = place.file("kernel.ii");
  std::string mark = std::string("-D__global__=") + kGlobalMark;
  if (!run_compiler(with({mark, "-E", "-o", preprocessed}), place, result.log)) return result;
  std::string text = read_file(preprocessed);
  std::vector<std::string_view> words = words_of(text);
  if (std::string word = unsupported_word(words); !word.empty()) {
    result.log += name +
                  ": error: the fake NVRTC runs threads one after the other and does not do " +
                  word + "\n";
    return result;
  }

  for (const std::string& found : kernels_in(words)) named += "CCLMARK_FAKE_ENTRY(" + found + ")\n";
  write_file(kernel, named);
  std::string object = place.file("kernel.so");
  // Kernels reinterpret memory as CUDA allows it; symbols of their own win over the process's.
  std::vector<std::string> flags = {
      "-O2", "-fPIC", "-shared", "-fno-strict-aliasing", "-Wl,-Bsymbolic,-z,defs", "-o", object};
  result.succeeded = run_compiler(with(flags), place, result.log);
  if (result.succeeded) result.object = read_file(object);
  return result;
}

}  // namespace fake_nvrtc
