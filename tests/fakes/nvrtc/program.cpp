#include "nvrtc/program.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <string_view>

#include "common/environment.hpp"
#include "cuda/image.hpp"
#include "nvrtc/compiler.hpp"

namespace fake_nvrtc {
namespace {

// Other vendors' compilers name architectures in their own way, or choose one without being told,
// and their kernels are for any device if that is 0.
#ifndef FAKE_RTC_ARCHITECTURE
#define FAKE_RTC_ARCHITECTURE -1
#endif
#ifndef FAKE_RTC_SPELLING
#define FAKE_RTC_SPELLING "sm_"
#endif

struct Options {
  int architecture = FAKE_RTC_ARCHITECTURE;
  std::vector<std::string> host;  ///< what the host's compiler is told
};

/// What follows the name of an option, which has two spellings; nothing where it is another option.
std::optional<std::string> value_of(const std::string& option, std::string_view spelling,
                                    std::string_view other) {
  for (std::string_view name : {spelling, other}) {
    if (option.starts_with(name)) return option.substr(name.size());
  }
  return std::nullopt;
}

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

bool begins_name(const std::string& text) {
  return !text.empty() && (std::isalpha(static_cast<unsigned char>(text[0])) || text[0] == '_');
}

/// Sorts the options; the log says what is wrong with the first that cannot be obeyed.
std::optional<Options> parse(const std::vector<std::string>& options, std::string& log) {
  Options parsed;
  for (const std::string& option : options) {
    auto target =
        value_of(option, "--gpu-architecture=" FAKE_RTC_SPELLING, "-arch=" FAKE_RTC_SPELLING);
    auto standard = value_of(option, "--std=", "-std=");
    auto definition = value_of(option, "--define-macro=", "-D");
    if (fake_common::environment_is("CCLMARK_FAKE_RTC_OPTIONS", "none")) target.reset();
    if (target && (target->size() == 2 || target->size() == 3) &&
        std::all_of(target->begin(), target->end(), is_digit)) {
      parsed.architecture = std::stoi(*target);
    } else if (standard == "c++17" || standard == "c++20") {
      parsed.host.push_back("-std=" + *standard);
    } else if (definition && begins_name(*definition)) {
      parsed.host.push_back("-D" + *definition);
    } else {
      log = "nvrtc: error: unrecognized option " + option + " found\n";
      return std::nullopt;
    }
  }
#ifdef FAKE_RTC_PREFIX
  parsed.host.push_back("-DFAKE_PORTABLE_ONLY");
#endif
  if (parsed.architecture < 0) {
    log = "nvrtc: error: the fake needs --gpu-architecture=sm_XX\n";
    return std::nullopt;
  }
  return parsed;
}

std::string make_image(const std::string& object, int architecture) {
  fake_cuda::ImageHeader header{};
  std::memcpy(header.magic, fake_cuda::kImageMagic, sizeof(header.magic));
  header.object_bytes = object.size();
  header.architecture = architecture;
  std::string image(reinterpret_cast<const char*>(&header), sizeof(header));
  return image + object;
}

}  // namespace

Result Program::compile(const std::vector<std::string>& options) {
  compiled = true;
  log.clear();
  image.clear();
  std::optional<Options> parsed = parse(options, log);
  if (!parsed) return kInvalidOption;
  if (fake_common::environment_is("CCLMARK_FAKE_RTC_ERROR", name.c_str())) {
    source += "\n#error CCLMARK_FAKE_RTC_ERROR\n";
  }
  Compilation compilation = compile_for_host(source, name, parsed->host);
  log = compilation.log;
  if (!compilation.succeeded) return kCompilation;
  image = make_image(compilation.object, parsed->architecture);
  return kSuccess;
}

}  // namespace fake_nvrtc
