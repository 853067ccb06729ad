#include "cuda/virtual_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#include "cuda/status.hpp"

namespace fake_cuda {
namespace {

/// Of files; the device follows, so that whoever is given a descriptor knows what it is of.
constexpr char kName[] = "cclmark-fake-memory-";

/// Of arenas, the numbers are small.
unsigned next_memory_serial() {
  static std::atomic<unsigned> next{1U << 30};
  return next++;
}

bool whole(size_t bytes) {
  return bytes > 0 && bytes % kGranularityBytes == 0;
}

std::string path_of(const FabricHandle& handle) {
  return fabric_directory() + "/" + std::string(handle.name, strnlen(handle.name, 63));
}

int device_of(int fd) {
  char link[128] = {};
  std::string path = "/proc/self/fd/" + std::to_string(fd);
  require(readlink(path.c_str(), link, sizeof(link) - 1) > 0, kInvalidValue);
  int device = -1;
  std::string format = "/memfd:" + std::string(kName) + "%d";
  require(std::sscanf(link, format.c_str(), &device) == 1, kInvalidValue);
  return device;
}

}  // namespace

std::string fabric_directory() {
  const char* directory = std::getenv("CCLMARK_FAKE_FABRIC");
  return directory != nullptr ? directory : "";
}

Physical::Physical(int device, size_t bytes, bool exportable, std::shared_ptr<const void> pledge)
    : device_(device),
      bytes_(bytes),
      exportable_(exportable),
      pledge_(std::move(pledge)),
      serial_(next_memory_serial()) {
  fd_ = memfd_create((kName + std::to_string(device)).c_str(), MFD_CLOEXEC);
  require(fd_ >= 0, kOutOfMemory);
  if (ftruncate(fd_, static_cast<off_t>(bytes)) == 0) return;
  close(fd_);
  throw Refusal{kOutOfMemory};
}

Physical::Physical(int fd) : device_(device_of(fd)), serial_(next_memory_serial()) {
  struct stat status{};
  require(fstat(fd, &status) == 0, kInvalidValue);
  bytes_ = static_cast<size_t>(status.st_size);
  fd_ = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  require(fd_ >= 0, kInvalidValue);
}

Physical::Physical(int device, size_t bytes, const FabricHandle& fresh,
                   std::shared_ptr<const void> pledge)
    : device_(device),
      bytes_(bytes),
      exportable_(false),
      fabric_(fresh),
      owns_file_(true),
      pledge_(std::move(pledge)),
      serial_(next_memory_serial()) {
  fd_ = open(path_of(fabric_).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  require(fd_ >= 0, kNotPermitted);
  if (ftruncate(fd_, static_cast<off_t>(bytes)) == 0) return;
  close(fd_);
  throw Refusal{kOutOfMemory};
}

Physical::Physical(const FabricHandle& exported)
    : exportable_(false), fabric_(exported), serial_(next_memory_serial()) {
  require(std::sscanf(fabric_.name, "device-%d-", &device_) == 1, kInvalidValue);
  // Of another domain, if it is not there.
  fd_ = open(path_of(fabric_).c_str(), O_RDWR | O_CLOEXEC);
  require(fd_ >= 0, kNotPermitted);
  struct stat status{};
  require(fstat(fd_, &status) == 0, kInvalidValue);
  bytes_ = static_cast<size_t>(status.st_size);
}

Physical::~Physical() {
  close(fd_);
  if (owns_file_) unlink(path_of(fabric_).c_str());
}

const FabricHandle& Physical::fabric() const {
  require(owns_file_, kInvalidValue);
  return fabric_;
}

int Physical::exported() const {
  require(exportable_, kInvalidValue);
  int fd = fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  require(fd >= 0, kOutOfMemory);
  return fd;
}

std::byte* VirtualMemory::reserve(size_t bytes, size_t alignment) {
  require(whole(bytes), kInvalidValue);
  auto fresh = std::unique_ptr<Reservation>(
      new Reservation{Addresses(bytes, std::max(alignment, kGranularityBytes)), {}});
  std::byte* first = fresh->addresses.first();
  std::lock_guard lock(mutex_);
  reservations_[first] = std::move(fresh);
  return first;
}

void VirtualMemory::free(const std::byte* first, size_t bytes) {
  std::lock_guard lock(mutex_);
  auto entry = reservations_.find(first);
  require(entry != reservations_.end(), kInvalidValue);
  const Reservation& reservation = *entry->second;
  require(reservation.addresses.bytes() == bytes && reservation.mappings.empty(), kInvalidValue);
  reservations_.erase(entry);
}

void VirtualMemory::map(const std::byte* first, size_t bytes, std::shared_ptr<Physical> physical) {
  std::lock_guard lock(mutex_);
  Place place = require_place(first, bytes);
  require(whole(bytes) && place.offset % kGranularityBytes == 0, kInvalidValue);
  require(bytes <= physical->bytes(), kInvalidValue);
  auto& mappings = place.reservation->mappings;
  auto next = mappings.lower_bound(place.offset);
  require(next == mappings.end() || next->first >= place.offset + bytes, kInvalidValue);
  if (next != mappings.begin()) {
    const auto& [offset, before] = *std::prev(next);
    require(offset + before.bytes <= place.offset, kInvalidValue);
  }
  place.reservation->addresses.fill(place.offset, bytes, physical->fd(), 0, false);
  mappings[place.offset] = {bytes, std::move(physical), {}};
}

void VirtualMemory::unmap(const std::byte* first, size_t bytes) {
  std::lock_guard lock(mutex_);
  Place place = require_place(first, bytes);
  require_mapping(place, bytes);
  place.reservation->addresses.clear(place.offset, bytes);
  place.reservation->mappings.erase(place.offset);
}

int VirtualMemory::device_at(const std::byte* first, size_t bytes) const {
  std::lock_guard lock(mutex_);
  return require_mapping(require_place(first, bytes), bytes).physical->device();
}

void VirtualMemory::set_access(const std::byte* first, size_t bytes, int device, bool accessible) {
  std::lock_guard lock(mutex_);
  Place place = require_place(first, bytes);
  Mapping& mapping = require_mapping(place, bytes);
  if (accessible) {
    mapping.devices.insert(device);
  } else {
    mapping.devices.erase(device);
  }
  place.reservation->addresses.allow(place.offset, bytes, !mapping.devices.empty());
}

std::optional<int> VirtualMemory::find(const void* memory, size_t bytes) const {
  auto located = locate(memory, bytes);
  if (!located) return std::nullopt;
  return located->first->device();
}

std::optional<std::pair<std::shared_ptr<Physical>, size_t>> VirtualMemory::locate(
    const void* memory, size_t bytes) const {
  std::lock_guard lock(mutex_);
  std::optional<Place> place = place_of(memory);
  if (!place) return std::nullopt;
  const auto& mappings = place->reservation->mappings;
  auto next = mappings.upper_bound(place->offset);
  if (next == mappings.begin()) return std::nullopt;
  const auto& [offset, mapping] = *std::prev(next);
  size_t within = place->offset - offset;
  bool inside = within < mapping.bytes && bytes <= mapping.bytes - within;
  if (!inside || mapping.devices.empty()) return std::nullopt;
  return std::pair(mapping.physical, within);
}

bool VirtualMemory::reserved(const void* memory) const {
  std::lock_guard lock(mutex_);
  return place_of(memory).has_value();
}

std::optional<VirtualMemory::Place> VirtualMemory::place_of(const void* memory) const {
  auto address = static_cast<const std::byte*>(memory);
  auto next = reservations_.upper_bound(address);
  if (next == reservations_.begin()) return std::nullopt;
  const auto& [first, reservation] = *std::prev(next);
  auto offset = static_cast<size_t>(address - first);
  if (offset >= reservation->addresses.bytes()) return std::nullopt;
  return Place{reservation.get(), offset};
}

VirtualMemory::Place VirtualMemory::require_place(const std::byte* first, size_t bytes) const {
  std::optional<Place> place = place_of(first);
  require(place.has_value(), kInvalidValue);
  require(bytes <= place->reservation->addresses.bytes() - place->offset, kInvalidValue);
  return *place;
}

VirtualMemory::Mapping& VirtualMemory::require_mapping(const Place& place, size_t bytes) const {
  auto mapping = place.reservation->mappings.find(place.offset);
  bool exact = mapping != place.reservation->mappings.end() && mapping->second.bytes == bytes;
  require(exact, kInvalidValue);
  return mapping->second;
}

}  // namespace fake_cuda
