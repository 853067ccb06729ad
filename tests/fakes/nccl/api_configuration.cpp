// Communicators with a configuration, as NCCL's parseCommConfig reads it.

#include <climits>
#include <cstring>

#include "common/environment.hpp"
#include "common/export.hpp"
#include "nccl/communicator.hpp"
#include "nccl/faults.hpp"
#include "nccl/group.hpp"
#include "nccl/last_error.hpp"

namespace fake_nccl {
namespace {

/// ncclConfig_t as nccl.h of 2.28 declares it. A library of an older version has the beginning.
struct Configuration {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
};

constexpr int kUndefined = INT_MIN;

size_t own_size() {
  if (version() < 21800) return offsetof(Configuration, splitShare);
  if (version() < 22700) return offsetof(Configuration, commName);
  if (version() < 22800) return offsetof(Configuration, nChannelsPerNetPeer);
  return sizeof(Configuration);
}

Configuration initial() {
  return {sizeof(Configuration),
          0,
          static_cast<unsigned int>(version()),
          kUndefined,
          kUndefined,
          kUndefined,
          kUndefined,
          nullptr,
          kUndefined,
          kUndefined,
          nullptr,
          kUndefined,
          kUndefined,
          kUndefined,
          kUndefined,
          kUndefined,
          kUndefined};
}

bool is_given(int value) {
  return value != kUndefined;
}

/// What the caller gave, with the defaults of what its version has not. Raises Failure.
Configuration received(const void* given) {
  Configuration own = initial();
  const Configuration defaults = own;
  size_t size = 0;
  std::memcpy(&size, given, sizeof(size));
  std::memcpy(&own, given, std::min(size, own_size()));
  require(own.magic == 0xcafebeef, kInvalidArgument,
          "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
  if (own.version < 21700) {
    own.cgaClusterSize = defaults.cgaClusterSize;
    own.minCTAs = defaults.minCTAs;
    own.maxCTAs = defaults.maxCTAs;
    own.netName = defaults.netName;
  }
  if (own.version < 22500) own.trafficClass = defaults.trafficClass;
  if (own.version < 22700) {
    own.collnetEnable = defaults.collnetEnable;
    own.CTAPolicy = defaults.CTAPolicy;
    own.shrinkShare = defaults.shrinkShare;
    own.nvlsCTAs = defaults.nvlsCTAs;
  }
  if (own.version < 22800) {
    own.nChannelsPerNetPeer = defaults.nChannelsPerNetPeer;
    own.nvlinkCentricSched = defaults.nvlinkCentricSched;
  }
  return own;
}

/// The checks of the library, also the comparison of a minimum with an undefined maximum.
void check(const Configuration& own) {
  for (int flag : {own.blocking, own.splitShare, own.collnetEnable, own.shrinkShare}) {
    require(!is_given(flag) || flag == 0 || flag == 1, kInvalidArgument,
            "Invalid config attribute value");
  }
  require(!is_given(own.cgaClusterSize) || own.cgaClusterSize >= 0, kInvalidArgument,
          "Invalid config cgaClusterSize attribute value");
  require((!is_given(own.minCTAs) || own.minCTAs > 0) &&
              (!is_given(own.maxCTAs) || own.maxCTAs > 0) && own.minCTAs <= own.maxCTAs,
          kInvalidArgument, "Invalid config min/max channels attribute value");
  const int last_policy = version() < 22800 ? 1 : 2;
  require(!is_given(own.CTAPolicy) || (own.CTAPolicy >= 0 && own.CTAPolicy <= last_policy),
          kInvalidArgument, "Invalid config policy attribute value");
  require(!is_given(own.nChannelsPerNetPeer) ||
              (own.nChannelsPerNetPeer > 0 && own.nChannelsPerNetPeer <= 64),
          kInvalidArgument, "Invalid config nChannelsPerNetPeer attribute value");
  require(!is_given(own.trafficClass) && !is_given(own.nvlsCTAs) &&
              !is_given(own.nvlinkCentricSched) && own.commName == nullptr,
          kInvalidArgument, "the fake knows no such attribute");
}

/// Environment variables decide instead of the configuration.
int chosen(const char* variable, int value) {
  auto given = is_given(value) ? static_cast<unsigned long long>(value) : 0;
  return static_cast<int>(fake_common::environment_number(variable, given));
}

}  // namespace

FAKE_API int ncclCommInitRankConfig(void** communicator, int ranks, UniqueId id, int rank,
                                    void* config) {
  return guarded([&] {
    require(communicator != nullptr, kInvalidArgument, "no place for the communicator");
    require(!in_group(), kInvalidUsage, "the fake makes one communicator a call, outside groups");
    *communicator = nullptr;
    fail_if_asked(rank, "CommInitRankConfig");
    Configuration own = config == nullptr ? initial() : received(config);
    if (config != nullptr) check(own);
    Channels channels{chosen("NCCL_MIN_CTAS", own.minCTAs), chosen("NCCL_MAX_CTAS", own.maxCTAs)};
    *communicator = communicators().add(std::make_shared<Communicator>(id, ranks, rank, channels));
  });
}

}  // namespace fake_nccl
