#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "cuda/addresses.hpp"

namespace fake_cuda {

/// Memory and addresses come in pieces of this size.
constexpr size_t kGranularityBytes = size_t{2} << 20;

/// CCLMARK_FAKE_FABRIC: a directory whose files stand for memory that other hosts can import; empty
/// if there is no fabric.
std::string fabric_directory();

/// What stands for memory on the fabric: the name of its file.
struct FabricHandle {
  char name[64];
};

/// Memory without an address: a file in memory, possibly of another process.
class Physical {
 public:
  /// Raises Refusal when there is none left.
  /// `pledge` goes with it.
  Physical(int device, size_t bytes, bool exportable, std::shared_ptr<const void> pledge);
  /// What another process exported; keeps a descriptor of its own. Raises Refusal for any other
  /// file.
  explicit Physical(int fd);
  /// Memory on the fabric, new, or that another process exported. Raises Refusal.
  Physical(int device, size_t bytes, const FabricHandle& fresh, std::shared_ptr<const void> pledge);
  explicit Physical(const FabricHandle& exported);
  ~Physical();
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  /// A new descriptor of the file. Raises Refusal.
  int exported() const;
  /// Raises Refusal unless it is on the fabric.
  const FabricHandle& fabric() const;

  int fd() const { return fd_; }
  int device() const { return device_; }
  size_t bytes() const { return bytes_; }
  /// Different for all memory of this process.
  unsigned serial() const { return serial_; }

 private:
  int fd_ = -1;
  int device_ = 0;
  size_t bytes_ = 0;
  bool exportable_ = true;
  FabricHandle fabric_ = {};
  bool owns_file_ = false;
  const std::shared_ptr<const void> pledge_;
  const unsigned serial_;
};

/// Addresses that are reserved, and the memory that is mapped there. All functions raise Refusal
/// for ranges that are not what they have to be.
class VirtualMemory {
 public:
  std::byte* reserve(size_t bytes, size_t alignment);
  void free(const std::byte* first, size_t bytes);
  /// Nothing can touch the memory before access is given.
  void map(const std::byte* first, size_t bytes, std::shared_ptr<Physical> physical);
  void unmap(const std::byte* first, size_t bytes);
  /// The device of the memory that is mapped at exactly this range.
  int device_at(const std::byte* first, size_t bytes) const;
  void set_access(const std::byte* first, size_t bytes, int device, bool accessible);

  /// The device of the memory, when all of the range is in one mapping that some device has
  /// access to.
  std::optional<int> find(const void* memory, size_t bytes) const;
  /// That memory, and the offset of the range in it.
  std::optional<std::pair<std::shared_ptr<Physical>, size_t>> locate(const void* memory,
                                                                     size_t bytes) const;
  bool reserved(const void* memory) const;

 private:
  struct Mapping {
    size_t bytes;
    std::shared_ptr<Physical> physical;
    std::set<int> devices;  ///< that have access
  };
  struct Reservation {
    Addresses addresses;
    std::map<size_t, Mapping> mappings;  ///< by offset
  };
  struct Place {
    Reservation* reservation;
    size_t offset;
  };

  /// The reservation that the address is in.
  std::optional<Place> place_of(const void* memory) const;
  Place require_place(const std::byte* first, size_t bytes) const;
  Mapping& require_mapping(const Place& place, size_t bytes) const;

  mutable std::mutex mutex_;
  std::map<const std::byte*, std::unique_ptr<Reservation>> reservations_;
};

}  // namespace fake_cuda
