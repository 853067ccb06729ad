#pragma once

#include <cstddef>
#include <string>

#include "ccl/communicator.hpp"

namespace cclmark {

/// ncclConfig_t (nccl.h) up to NCCL 2.28, whose fields later versions continue: what a caller
/// passes to ncclCommInitRankConfig. A field of its own by its C type, in the library's order.
struct NcclConfigurationFields {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cga_cluster_size;
  int min_ctas;
  int max_ctas;
  const char* net_name;
  int split_share;
  int traffic_class;
  const char* communicator_name;
  int collnet_enable;
  int cta_policy;
  int shrink_share;
  int nvls_ctas;
  int channels_per_net_peer;
  int nvlink_centric_scheduling;
};

/// The options of a communicator as the library receives them.
///
/// A library copies `size` bytes, at most as many as it knows, and replaces fields that `version`
/// does not have by its defaults (parseCommConfig in NCCL's init.cc). So the structure is passed
/// in the oldest version that has all given options: newer libraries complete it. An older one
/// would ignore the options that it does not know: they are refused here.
class NcclConfiguration {
 public:
  /// `version`: of the library, which is `called` so in messages.
  /// Raises MissingError if the library is older than an option, UsageError for an unknown option
  /// and for a value that is not a number where the field is one.
  NcclConfiguration(const CommunicatorOptions& options, int version, const std::string& called);

  /// Valid while this object is.
  NcclConfigurationFields* fields() { return &fields_; }

 private:
  void set(const std::string& name, const std::string& value, int version,
           const std::string& called);

  std::string net_name_;
  NcclConfigurationFields fields_;
};

}  // namespace cclmark
