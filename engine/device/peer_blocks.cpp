#include "device/peer_blocks.hpp"

#include <algorithm>
#include <bit>
#include <exception>

#include "core/error.hpp"

namespace cclmark {
namespace {

// The states of a rank's memory.
constexpr double kFine = 0, kShort = 1, kRefused = 2;

}  // namespace

PeerBlocks::PeerBlocks(std::vector<Device*> devices, RankGroup& rank_group)
    : own_(std::move(devices)), rank_group_(rank_group), first_(rank_group.rank() * own_count()) {}

PeerBlocks::~PeerBlocks() {
  release();
}

void PeerBlocks::close_others() noexcept {
  for (auto& [place, memory] : opened_) device(place.first).close_shared(memory);
  opened_.clear();
}

void PeerBlocks::release() noexcept {
  close_others();
  for (size_t i = 0; i < blocks_.size(); ++i) own_[i]->release(blocks_[i]);
  blocks_.clear();
}

void PeerBlocks::leave() {
  close_others();
  rank_group_.barrier();
  release();
}

void PeerBlocks::reserve(size_t bytes) {
  leave();
  std::exception_ptr failure;
  double kind = kFine;
  try {
    for (Device* device : own_) {
      device->activate();
      blocks_.push_back(static_cast<std::byte*>(
          rank_group_.size() > 1 ? device->allocate_shareable(bytes) : device->allocate(bytes)));
    }
  } catch (const OutOfMemoryError&) {
    failure = std::current_exception();
    kind = kShort;
  } catch (const UnsupportedError&) {
    failure = std::current_exception();
    kind = kRefused;
  }
  double worst = std::ranges::max(rank_group_.gather(std::array<double, 1>{kind}));
  if (worst > kFine) {
    release();
    if (kind == worst) std::rethrow_exception(failure);
    if (worst == kShort) throw OutOfMemoryError("another rank could not allocate its buffers");
    throw UnsupportedError("another rank cannot share its memory");
  }
  if (rank_group_.size() > 1) announce();
}

/// Exchanges the handles of all processes' memory. If one cannot share its memory, none opens any.
void PeerBlocks::announce() {
  constexpr size_t kWords = sizeof(MemoryHandle) / sizeof(double);
  constexpr double kByHandle = 0, kByDescriptor = 1, kRefused = 2;
  std::vector<double> own;
  std::vector<Descriptor> offered;
  std::exception_ptr failure;
  for (size_t i = 0; i < own_.size(); ++i) {
    SharedMemory shared;
    try {
      own_[i]->activate();
      shared = own_[i]->share(blocks_[i]);
    } catch (const UnsupportedError&) {
      failure = std::current_exception();
    }
    offered.emplace_back(shared.descriptor);
    // Handles are sent as numbers whose bits are not interpreted.
    auto words = std::bit_cast<std::array<double, kWords>>(shared.handle);
    own.insert(own.end(), words.begin(), words.end());
    double by = shared.descriptor < 0 ? kByHandle : kByDescriptor;
    own.push_back(failure ? kRefused : by);
  }
  std::vector<double> all = rank_group_.gather(own);
  shared_.assign(static_cast<size_t>(devices()), {});
  size_t by_descriptor = 0, refused = 0;
  for (size_t i = 0; i < shared_.size(); ++i) {
    std::array<double, kWords> words;
    std::copy_n(all.begin() + static_cast<ptrdiff_t>(i * (kWords + 1)), kWords, words.begin());
    shared_[i].handle = std::bit_cast<MemoryHandle>(words);
    double by = all[i * (kWords + 1) + kWords];
    by_descriptor += by == kByDescriptor ? 1 : 0;
    refused += by == kRefused ? 1 : 0;
  }
  if (failure) std::rethrow_exception(failure);
  if (refused > 0) throw UnsupportedError("another rank cannot share its memory");
  descriptors_.clear();
  if (by_descriptor == 0) return;
  if (by_descriptor < shared_.size()) {
    throw UnsupportedError(
        "some processes share memory by handle and others by descriptor, which is not supported");
  }
  if (own_.size() > 1) {
    throw UnsupportedError("sharing memory by descriptor requires one device per process");
  }
  descriptors_ = exchange_descriptors(rank_group_, offered[0].get());
  for (size_t i = 0; i < shared_.size(); ++i) shared_[i].descriptor = descriptors_[i].get();
}

std::byte* PeerBlocks::at(int user, int number) {
  if (owns(number)) return blocks_[static_cast<size_t>(number - first_)];
  auto entry = opened_.find({user, number});
  if (entry != opened_.end()) return entry->second;
  Device& opener = device(user);
  opener.activate();
  auto memory = static_cast<std::byte*>(opener.open_shared(shared_[static_cast<size_t>(number)]));
  opened_[{user, number}] = memory;
  return memory;
}

}  // namespace cclmark
