#include "nvrtc/program.hpp"

#include <cstring>
#include <optional>
#include <regex>

#include "cuda/image.hpp"
#include "nvrtc/compiler.hpp"

namespace fake_nvrtc {
namespace {

struct Options {
  int architecture = 0;
  std::vector<std::string> host;  ///< what the host's compiler is told
};

/// Sorts the options; the log says what is wrong with the first that cannot be obeyed.
std::optional<Options> parse(const std::vector<std::string>& options, std::string& log) {
  static const std::regex target("(?:--gpu-architecture|-arch)=sm_([0-9]{2,3})");
  static const std::regex standard("(?:--std|-std)=(c\\+\\+(?:17|20))");
  static const std::regex definition("(?:--define-macro=|-D)([A-Za-z_]\\w*(?:=.*)?)");
  Options parsed;
  std::smatch match;
  for (const std::string& option : options) {
    if (std::regex_match(option, match, target)) {
      parsed.architecture = std::stoi(match[1]);
    } else if (std::regex_match(option, match, standard)) {
      parsed.host.push_back("-std=" + match[1].str());
    } else if (std::regex_match(option, match, definition)) {
      parsed.host.push_back("-D" + match[1].str());
    } else {
      log = "nvrtc: error: unrecognized option " + option + " found\n";
      return std::nullopt;
    }
  }
  if (parsed.architecture == 0) {
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
  Compilation compilation = compile_for_host(source, name, parsed->host);
  log = compilation.log;
  if (!compilation.succeeded) return kCompilation;
  image = make_image(compilation.object, parsed->architecture);
  return kSuccess;
}

}  // namespace fake_nvrtc
