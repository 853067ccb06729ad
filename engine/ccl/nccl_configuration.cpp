#include "ccl/nccl_configuration.hpp"

#include <algorithm>
#include <charconv>
#include <climits>

#include "core/error.hpp"

namespace cclmark {
namespace {

using Fields = NcclConfigurationFields;

constexpr unsigned int kMagic = 0xcafebeef;
constexpr int kUndefined = INT_MIN;
constexpr int kFewerChannelsBefore = 22500;

/// What a version of the structure ends with. Sizes as the C compiler rounds them.
struct Layout {
  unsigned int version;
  size_t size;
};
constexpr Layout kFirst{21700, offsetof(Fields, split_share)};
constexpr Layout kNamed{22700, offsetof(Fields, channels_per_net_peer)};
constexpr Layout kPeered{22800, sizeof(Fields)};
static_assert(kFirst.size == 40 && kNamed.size == 72 && kPeered.size == 80);

struct Option {
  const char* name;
  int Fields::* field;
  Layout layout;
};
constexpr Option kNumbers[] = {
    {"cgaClusterSize", &Fields::cga_cluster_size, kFirst},
    {"minCTAs", &Fields::min_ctas, kFirst},
    {"maxCTAs", &Fields::max_ctas, kFirst},
    {"collnetEnable", &Fields::collnet_enable, kNamed},
    {"CTAPolicy", &Fields::cta_policy, kNamed},
    {"nChannelsPerNetPeer", &Fields::channels_per_net_peer, kPeered},
};
constexpr const char* kNetName = "netName";

std::string version_of(unsigned int encoded) {
  return std::to_string(encoded / 10000) + "." + std::to_string(encoded / 100 % 100);
}

int number(const std::string& name, const std::string& text) {
  int value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == kUndefined) {
    throw UsageError("the option " + name + " of a communicator requires an integer, not '" + text +
                     "'");
  }
  return value;
}

}  // namespace

NcclConfiguration::NcclConfiguration(const CommunicatorOptions& options, int version,
                                     const std::string& called)
    : fields_{.size = kFirst.size,
              .magic = kMagic,
              .version = kFirst.version,
              .blocking = kUndefined,
              .cga_cluster_size = kUndefined,
              .min_ctas = kUndefined,
              .max_ctas = kUndefined,
              .net_name = nullptr,
              .split_share = kUndefined,
              .traffic_class = kUndefined,
              .communicator_name = nullptr,
              .collnet_enable = kUndefined,
              .cta_policy = kUndefined,
              .shrink_share = kUndefined,
              .nvls_ctas = kUndefined,
              .channels_per_net_peer = kUndefined,
              .nvlink_centric_scheduling = kUndefined} {
  for (const auto& [name, value] : options) set(name, value, version, called);
  // NCCL compares a given minimum with the maximum also where that is undefined, which is INT_MIN,
  // and refuses it: the maximum is then the library's own default.
  if (fields_.min_ctas != kUndefined && fields_.max_ctas == kUndefined) {
    fields_.max_ctas = version < kFewerChannelsBefore ? 32 : 64;
  }
}

void NcclConfiguration::set(const std::string& name, const std::string& value, int version,
                            const std::string& called) {
  const Option* known =
      std::ranges::find_if(kNumbers, [&](const Option& one) { return name == one.name; });
  bool is_number = known != std::end(kNumbers);
  if (!is_number && name != kNetName) {
    throw UsageError("the configuration of a communicator has no option " + name +
                     " that is supported");
  }
  const Layout& layout = is_number ? known->layout : kFirst;
  if (version < static_cast<int>(layout.version)) {
    throw MissingError(called + " has no option " + name +
                       " of a communicator (NCCL has it since " + version_of(layout.version) + ")");
  }
  if (is_number) {
    fields_.*(known->field) = number(name, value);
  } else {
    net_name_ = value;
    fields_.net_name = net_name_.c_str();
  }
  fields_.version = std::max(fields_.version, layout.version);
  fields_.size = std::max(fields_.size, layout.size);
}

}  // namespace cclmark
