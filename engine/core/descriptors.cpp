#include "core/descriptors.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "core/error.hpp"

namespace cclmark {
namespace {

constexpr int kPollMs = 50;

[[noreturn]] void fail(const char* call) {
  int code = errno;
  throw Error(Error::describe(call, code, std::strerror(code)));
}

/// A name of the kernel's, which goes with its socket; no file is left behind.
std::pair<sockaddr_un, socklen_t> address_of(pid_t pid) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string name = "cclmark-descriptors-" + std::to_string(pid);
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

union Control {
  cmsghdr alignment;
  std::array<char, CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))> bytes;
};

void send_to(int socket, pid_t pid, int rank, int fd) {
  auto [address, length] = address_of(pid);
  iovec content{&rank, sizeof(rank)};
  Control control{};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = length;
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = CMSG_SPACE(sizeof(int));
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  if (sendmsg(socket, &message, 0) != sizeof(rank)) fail("sendmsg(a descriptor)");
}

/// The rank that a message is from and its descriptor; -1 for a message of a stranger.
std::pair<int, Descriptor> receive_from(int socket, const std::vector<pid_t>& pids) {
  int rank = -1;
  iovec content{&rank, sizeof(rank)};
  Control control{};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) < 0) fail("recvmsg(a descriptor)");
  Descriptor received;
  ucred sender{};
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET) continue;
    if (header->cmsg_type == SCM_RIGHTS) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
      received = Descriptor(fd);
    } else if (header->cmsg_type == SCM_CREDENTIALS) {
      std::memcpy(&sender, CMSG_DATA(header), sizeof(sender));
    }
  }
  bool known = rank >= 0 && rank < static_cast<int>(pids.size()) && sender.uid == getuid() &&
               sender.pid == pids[static_cast<size_t>(rank)];
  if (!known || received.get() < 0) return {-1, Descriptor()};
  return {rank, std::move(received)};
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

int Descriptor::release() noexcept {
  return std::exchange(fd_, -1);
}

std::vector<Descriptor> exchange_descriptors(RankGroup& rank_group, int own) {
  Descriptor mailbox(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (mailbox.get() < 0) fail("socket");
  int on = 1;
  if (setsockopt(mailbox.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0) fail("setsockopt");
  auto [address, length] = address_of(getpid());
  if (bind(mailbox.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) fail("bind");
  // Once all ranks have sent their process ids, all mailboxes exist.
  std::vector<pid_t> pids;
  for (double pid : rank_group.gather(std::array<double, 1>{static_cast<double>(getpid())})) {
    pids.push_back(static_cast<pid_t>(pid));
  }
  std::vector<Descriptor> all(pids.size());
  // One at a time: a mailbox holds only so many messages.
  for (int turn = 0; turn < rank_group.size(); ++turn) {
    if (turn == rank_group.rank()) {
      for (pid_t pid : pids) send_to(mailbox.get(), pid, turn, own);
    }
    while (all[static_cast<size_t>(turn)].get() < 0) {
      pollfd arrival{mailbox.get(), POLLIN, 0};
      if (poll(&arrival, 1, kPollMs) <= 0) {
        rank_group.check(turn);
        continue;
      }
      auto [rank, received] = receive_from(mailbox.get(), pids);
      if (rank >= 0) all[static_cast<size_t>(rank)] = std::move(received);
    }
    rank_group.barrier();
  }
  return all;
}

}  // namespace cclmark
