#pragma once

#include <string>
#include <vector>

namespace cclmark {

/// Where the parts of CANN may lie: what the loader finds, then where its installers put them.
std::vector<std::string> cann_files(const std::string& name);

/// What to do where a library of CANN or one that it needs is not found.
extern const char* const kCannAdvice;

/// The version of CANN's package HCCL, "unknown" where nothing tells.
std::string hccl_package_version();

/// What the ACL runtime and the libraries on it last complained of on this thread; mostly empty.
std::string recent_acl_error();

}  // namespace cclmark
