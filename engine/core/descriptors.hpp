#pragma once

#include <vector>

#include "core/rank_group.hpp"

namespace cclmark {

/// A file descriptor of this process, closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int get() const { return fd_; }
  int release() noexcept;

 private:
  int fd_;
};

/// Returns a descriptor for the file of each rank's `own`: result[rank]. The kernel passes them
/// through sockets, which containers permit even where they forbid opening another process's files.
/// A collective call. Ignores messages from other users' processes and from outside the
/// rank group. Raises Error, and the errors of RankGroup::check while it waits.
std::vector<Descriptor> exchange_descriptors(RankGroup& rank_group, int own);

}  // namespace cclmark
