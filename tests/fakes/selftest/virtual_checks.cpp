// Memory and addresses apart in the fake driver, and memory by descriptor in another process.

#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "selftest/checks.hpp"
#include "selftest/harness.hpp"
#include "selftest/libraries.hpp"

namespace selftest {
namespace {

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidDevice = 101, kNotSupported = 801;
constexpr size_t kPiece = 2 << 20, kWhole = 2 * kPiece;

using Physical = unsigned long long;

struct Location {
  int type, id;
};
struct Properties {
  int type, handle_types;
  Location location;
  void* win32;
  unsigned char flags[8];
};
struct Access {
  Location location;
  int flags;
};

int set_access(const Gpu& gpu, Address memory, int device, int flags) {
  const Access access{{1, device}, flags};
  return gpu.cuda("cuMemSetAccess", memory, kWhole, &access, size_t{1});
}

/// Addresses with the memory of a handle.
Address map_whole(const Gpu& gpu, Physical handle, int device) {
  Address memory = 0;
  CHECK_EQUAL(gpu.cuda("cuMemAddressReserve", &memory, kWhole, size_t{0}, Address{0}, 0ull), 0);
  CHECK_EQUAL(memory % kPiece, 0);
  CHECK_EQUAL(gpu.cuda("cuMemMap", memory, kWhole, size_t{0}, handle, 0ull), 0);
  CHECK_EQUAL(set_access(gpu, memory, device, 3), 0);
  return memory;
}

int fill(const Gpu& gpu, Address first, size_t bytes) {
  int status = gpu.cuda("cuMemsetD8Async", first, static_cast<unsigned char>(5), bytes, gpu.stream);
  gpu.wait();
  return status;
}

int export_descriptor(const Gpu& gpu, Physical handle, int& fd) {
  return gpu.cuda("cuMemExportToShareableHandle", static_cast<void*>(&fd), handle, 1, 0ull);
}

/// A message of one byte with room for a descriptor.
struct Message {
  char byte = 0;
  iovec vector{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{nullptr, 0, &vector, 1, control, sizeof(control), 0};
};

void send_descriptor(int socket, int fd) {
  Message message;
  cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(control), &fd, sizeof(fd));
  CHECK_EQUAL(sendmsg(socket, &message.header, 0), 1);
}

int receive_descriptor(int socket) {
  Message message;
  CHECK_EQUAL(recvmsg(socket, &message.header, 0), 1);
  const cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  CHECK(control != nullptr);
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(control), sizeof(fd));
  return fd;
}

void be_exporter(int socket) {
  Gpu gpu(0);
  const Properties properties{1, 1, {1, 0}, nullptr, {}};
  Physical handle = 0;
  CHECK_EQUAL(gpu.cuda("cuMemCreate", &handle, kWhole, &properties, 0ull), 0);
  Address memory = map_whole(gpu, handle, 0);
  CHECK_EQUAL(fill(gpu, memory, kWhole), 0);
  int fd = -1;
  CHECK_EQUAL(export_descriptor(gpu, handle, fd), 0);
  send_descriptor(socket, fd);
  close(fd);
  // The mapping keeps the memory.
  CHECK_EQUAL(gpu.cuda("cuMemRelease", handle), 0);
  char host[6] = {};
  CHECK_EQUAL(read(socket, host, 1), 1);
  gpu.read(host, reinterpret_cast<const void*>(memory + kWhole - 6), 6);
  CHECK_EQUAL(std::memcmp(host, "\5there", 6), 0);
}

void be_importer(int socket) {
  Gpu gpu(1);
  Physical handle = 0;
  auto import = [&](intptr_t fd) {
    return gpu.cuda("cuMemImportFromShareableHandle", &handle, reinterpret_cast<void*>(fd), 1);
  };
  CHECK_EQUAL(import(socket), kInvalidValue);
  int fd = receive_descriptor(socket);
  CHECK_EQUAL(import(fd), 0);
  close(fd);
  Address memory = map_whole(gpu, handle, 1);
  void* own = gpu.allocate(6);
  auto copy = [&](Address to, Address from, size_t bytes) {
    CHECK_EQUAL(gpu.cuda("cuMemcpyAsync", to, from, bytes, gpu.stream), 0);
    gpu.wait();
  };
  copy(address(own), memory + kWhole - 6, 6);
  char host[6] = {};
  gpu.read(host, own, 6);
  CHECK_EQUAL(std::memcmp(host, "\5\5\5\5\5\5", 6), 0);
  gpu.write(own, "there", 5);
  copy(memory + kWhole - 5, address(own), 5);
  CHECK_EQUAL(write(socket, host, 1), 1);
}

void check_memory() {
  setenv("CCLMARK_FAKE_MEMORY", "8388608", 1);
  Gpu gpu(0);
  Properties properties{1, 0, {1, 0}, nullptr, {}};
  Physical handle = 0, more = 0;
  auto create = [&](size_t bytes, Physical& created) {
    return gpu.cuda("cuMemCreate", &created, bytes, static_cast<const Properties*>(&properties),
                    0ull);
  };
  size_t bytes = 0, total = 0;
  CHECK_EQUAL(gpu.cuda("cuMemGetAllocationGranularity", &bytes,
                       static_cast<const Properties*>(&properties), 0),
              0);
  CHECK_EQUAL(bytes, kPiece);
  CHECK_EQUAL(create(kPiece + 4096, handle), kInvalidValue);
  CHECK_EQUAL(create(5 * kPiece, handle), kOutOfMemory);
  CHECK_EQUAL(create(kWhole, handle), 0);
  gpu.allocate(kPiece);
  CHECK_EQUAL(create(kWhole, more), kOutOfMemory);
  Address whole = 0;
  CHECK_EQUAL(gpu.cuda("cuMemAlloc_v2", &whole, kWhole), kOutOfMemory);
  CHECK_EQUAL(gpu.cuda("cuMemGetInfo_v2", &bytes, &total), 0);
  CHECK_EQUAL(bytes, kPiece);
  int fd = -1;
  CHECK_EQUAL(export_descriptor(gpu, handle, fd), kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuMemRelease", handle), 0);
  CHECK_EQUAL(gpu.cuda("cuMemRelease", handle), kInvalidValue);
  CHECK_EQUAL(create(3 * kPiece, handle), 0);
  properties.handle_types = 8;
  CHECK_EQUAL(create(kPiece, more), kNotSupported);
  properties.location.id = 4;
  CHECK_EQUAL(create(kPiece, more), kInvalidDevice);
}

void check_addresses() {
  setenv("CCLMARK_FAKE_NO_PEER", "0-2", 1);
  Gpu gpu(0);
  const Properties properties{1, 0, {1, 0}, nullptr, {}};
  Physical handle = 0;
  CHECK_EQUAL(gpu.cuda("cuMemCreate", &handle, kWhole, &properties, 0ull), 0);
  Address memory = map_whole(gpu, handle, 0);
  CHECK_EQUAL(set_access(gpu, memory, 2, 3), kInvalidDevice);
  CHECK_EQUAL(set_access(gpu, memory, 0, 1), kNotSupported);
  CHECK_EQUAL(fill(gpu, memory + 1, kWhole), kInvalidValue);
  CHECK_EQUAL(fill(gpu, memory + 1, kWhole - 1), 0);
  CHECK_EQUAL(set_access(gpu, memory, 1, 3), 0);
  CHECK_EQUAL(set_access(gpu, memory, 0, 0), 0);
  CHECK_EQUAL(fill(gpu, memory, 1), 0);
  CHECK_EQUAL(set_access(gpu, memory, 1, 0), 0);
  CHECK_EQUAL(fill(gpu, memory, 1), kInvalidValue);

  CHECK_EQUAL(gpu.cuda("cuMemMap", memory, kPiece, size_t{0}, handle, 0ull), kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuMemAddressFree", memory, kWhole), kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuMemUnmap", memory, kPiece), kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuMemUnmap", memory, kWhole), 0);
  char host = 0;
  CHECK_EQUAL(gpu.cuda("cuMemcpyAsync", memory, address(&host), size_t{1}, gpu.stream),
              kInvalidValue);
  CHECK_EQUAL(gpu.cuda("cuMemAddressFree", memory, kWhole), 0);
  CHECK_EQUAL(gpu.cuda("cuMemAddressFree", memory, kWhole), kInvalidValue);
}

}  // namespace

void virtual_checks() {
  run("memory without addresses", 1, [](int) { check_memory(); });
  run("addresses without memory", 1, [](int) { check_addresses(); });
  int sockets[2] = {};
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  run("memory by descriptor", 2,
      [&](int rank) { rank == 0 ? be_exporter(sockets[0]) : be_importer(sockets[1]); });
  close(sockets[0]);
  close(sockets[1]);
}

}  // namespace selftest
