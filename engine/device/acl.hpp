#pragma once

#include <string>
#include <vector>

namespace cclmark {

/// Where the parts of CANN may lie: what the loader finds, then where its installers put them.
std::vector<std::string> cann_files(const std::string& name);

/// The advice if a library of CANN or one of its dependencies is not found.
extern const char* const kCannAdvice;

/// The version of CANN's package HCCL, "unknown" if not reported.
std::string hccl_package_version();

/// The last error text of the ACL runtime and its libraries on this thread; mostly empty.
std::string recent_acl_error();

}  // namespace cclmark
