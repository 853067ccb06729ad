#pragma once

#include <vector>

#include "core/team.hpp"

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

/// Gives every rank a descriptor of what each rank's `own` refers to: result[rank]. Handed over by
/// the kernel through sockets, which containers allow where they forbid to open another process's
/// files. A collective call; only processes of this user and team are listened to.
/// Raises Error, and what Team::check raises while it waits.
std::vector<Descriptor> exchange_descriptors(Team& team, int own);

}  // namespace cclmark
