#include "device/peer_blocks.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "core/error.hpp"

namespace cclmark {
namespace {

// The states of a rank's memory.
constexpr double kFine = 0, kShort = 1, kRefused = 2;

}  // namespace

PeerBlocks::PeerBlocks(std::vector<Device*> devices, RankGroup& rank_group, Reach reach)
    : own_(std::move(devices)),
      rank_group_(rank_group),
      for_hosts_(reach == Reach::all_hosts && !rank_group.on_one_host()),
      first_(rank_group.rank() * own_count()) {}

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

/// Raises the error of rank `culprit` on every rank.
void PeerBlocks::raise(double kind, int culprit, std::string reason) {
  reason = rank_group_.text_of(culprit, std::move(reason));
  if (culprit != rank_group_.rank()) {
    reason = "rank " + std::to_string(rank_group_.number_of(culprit)) + ": " + reason;
  }
  if (kind == kShort) throw OutOfMemoryError(reason);
  throw UnsupportedError(reason);
}

void PeerBlocks::leave() {
  close_others();
  rank_group_.barrier();
  release();
}

void PeerBlocks::reserve(size_t bytes) {
  leave();
  std::string reason;
  double kind = kFine;
  try {
    for (Device* device : own_) {
      device->activate();
      void* memory = rank_group_.size() == 1 ? device->allocate(bytes)
                     : for_hosts_            ? device->allocate_for_hosts(bytes)
                                             : device->allocate_shareable(bytes);
      blocks_.push_back(static_cast<std::byte*>(memory));
    }
  } catch (const OutOfMemoryError& error) {
    reason = error.what();
    kind = kShort;
  } catch (const UnsupportedError& error) {
    reason = error.what();
    kind = kRefused;
  }
  std::vector<double> kinds = rank_group_.gather(std::array<double, 1>{kind});
  double worst = std::ranges::max(kinds);
  if (worst > kFine) {
    release();
    auto culprit = static_cast<int>(std::ranges::find(kinds, worst) - kinds.begin());
    raise(worst, culprit, std::move(reason));
  }
  if (rank_group_.size() > 1) announce();
}

/// Exchanges the handles of all processes' memory. If one cannot share its memory, none opens any.
void PeerBlocks::announce() {
  constexpr size_t kWords = sizeof(MemoryHandle) / sizeof(uint32_t), kWordsOfEach = kWords + 2;
  constexpr double kByHandle = 0, kByDescriptor = 1, kNot = 2;
  std::vector<double> own;
  std::vector<Descriptor> offered;
  std::string reason;
  for (size_t i = 0; i < own_.size(); ++i) {
    SharedMemory shared;
    try {
      own_[i]->activate();
      shared = own_[i]->share(blocks_[i]);
    } catch (const UnsupportedError& error) {
      reason = error.what();
    }
    offered.emplace_back(shared.descriptor);
    auto words = std::bit_cast<std::array<uint32_t, kWords>>(shared.handle);
    own.insert(own.end(), words.begin(), words.end());
    double by = shared.descriptor < 0 ? kByHandle : kByDescriptor;
    own.push_back(reason.empty() ? by : kNot);
    own.push_back(static_cast<double>(shared.fabric_bytes));
  }
  std::vector<double> all = rank_group_.gather(own);
  shared_.assign(static_cast<size_t>(devices()), {});
  size_t by_descriptor = 0;
  int refused = -1;  // the first device that is not shared
  for (size_t i = 0; i < shared_.size(); ++i) {
    std::array<uint32_t, kWords> words;
    const double* one = all.data() + i * kWordsOfEach;
    std::transform(one, one + kWords, words.begin(),
                   [](double word) { return static_cast<uint32_t>(word); });
    shared_[i].handle = std::bit_cast<MemoryHandle>(words);
    shared_[i].fabric_bytes = static_cast<size_t>(one[kWords + 1]);
    double by = one[kWords];
    by_descriptor += by == kByDescriptor ? 1 : 0;
    if (by == kNot && refused < 0) refused = static_cast<int>(i);
  }
  if (refused >= 0) raise(kRefused, refused / own_count(), std::move(reason));
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
