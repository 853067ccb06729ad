#include "core/rank_group.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/waiting.hpp"

namespace cclmark {

/// A rank's part of the memory, in separate cache lines. It has two payloads, for even and odd
/// epochs: a rank may write its next payload while a slower rank still reads the previous one.
struct alignas(64) RankGroup::Slot {
  std::atomic<uint64_t> epoch;
  alignas(64) double payload[2][kPayload / sizeof(double)];
};

namespace {

std::vector<int> numbers_up_to(int size) {
  std::vector<int> numbers(static_cast<size_t>(std::max(0, size)));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

RankGroup::RankGroup(const Options& options) : RankGroup(options, 0, numbers_up_to(options.size)) {}

RankGroup::RankGroup(const Options& options, size_t first_slot, std::vector<int> numbers)
    : first_slot_(first_slot),
      numbers_(std::move(numbers)),
      hosts_(options.hosts),
      value_exchange_(options.value_exchange),
      rank_(options.rank),
      size_(static_cast<int>(numbers_.size())),
      oversubscribed_(options.oversubscribed) {
  if (rank_ < 0 || rank_ >= size_) {
    throw Error("rank " + std::to_string(rank_) + " does not exist in a rank group of " +
                std::to_string(size_) + " ranks");
  }
  auto host_of = [this](int number) {
    if (hosts_.empty()) return 0;
    if (static_cast<size_t>(number) < hosts_.size()) return hosts_[static_cast<size_t>(number)];
    throw Error("the host of rank " + std::to_string(number) + " is unknown");
  };
  int own_host = host_of(numbers_[static_cast<size_t>(rank_)]);
  for (int number : numbers_) here_.push_back(host_of(number) == own_host);
  if (!on_one_host()) {
    if (!value_exchange_) throw Error("ranks on several hosts require a value exchange");
    fetches_ = std::ranges::find(here_, true) - here_.begin() == rank_;
  }
  bytes_ = kHeaderBytes + sizeof(Slot) * (first_slot_ + numbers_.size());
  // This call grows the file and never shrinks it: other ranks may require more of it.
  if (fallocate(options.fd, 0, static_cast<off_t>(bytes_ - 1), 1) != 0) {
    throw Error(Error::describe("fallocate(rank group memory)", errno, std::strerror(errno)));
  }
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, options.fd, 0);
  if (memory == MAP_FAILED) {
    throw Error(Error::describe("mmap(rank group memory)", errno, std::strerror(errno)));
  }
  memory_ = static_cast<std::byte*>(memory);
  epoch_ = slot(rank_).epoch.load(std::memory_order_relaxed);
}

RankGroup::~RankGroup() {
  munmap(memory_, bytes_);
}

std::unique_ptr<RankGroup> RankGroup::subgroup(int fd, const std::vector<int>& members,
                                               size_t first_slot,
                                               HostValueExchange value_exchange) const {
  auto own = std::find(members.begin(), members.end(), numbers_[static_cast<size_t>(rank_)]);
  if (own == members.end()) throw Error("a rank cannot join a group that it is not a member of");
  auto place = static_cast<int>(own - members.begin());
  // make_unique cannot access the constructor.
  Options options{
      .fd = fd,
      .rank = place,
      .oversubscribed = oversubscribed_,
      .hosts = hosts_,
      .value_exchange = value_exchange != nullptr ? std::move(value_exchange) : value_exchange_};
  return std::unique_ptr<RankGroup>(new RankGroup(options, first_slot, members));
}

RankGroup::Slot& RankGroup::slot(int rank) const {
  return reinterpret_cast<Slot*>(memory_ + kHeaderBytes)[first_slot_ + static_cast<size_t>(rank)];
}

bool RankGroup::on_one_host() const {
  return std::ranges::find(here_, false) == here_.end();
}

bool RankGroup::aborted() const {
  return reinterpret_cast<std::atomic<uint8_t>*>(memory_)->load(std::memory_order_relaxed) != 0;
}

void RankGroup::abort() noexcept {
  reinterpret_cast<std::atomic<uint8_t>*>(memory_)->store(1, std::memory_order_relaxed);
}

void RankGroup::expect_within(double seconds, std::string doing) {
  deadline_ = Deadline(seconds);
  doing_ = std::move(doing);
}

void RankGroup::check(int peer) const {
  if (aborted()) throw AbortedError("stopped during " + doing_ + ": another rank failed");
  if (!deadline_.passed()) return;
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%g s", deadline_.seconds());
  std::string awaited = peer == kDevice ? "the device"
                        : peer == kElsewhere
                            ? "the ranks on other hosts"
                            : "rank " + std::to_string(numbers_[static_cast<size_t>(peer)]);
  throw TimeoutError("waited " + std::string(seconds) + " for " + awaited + " during " + doing_);
}

void RankGroup::barrier() {
  meet(0);
}

void RankGroup::meet(size_t count) {
  uint64_t epoch = ++epoch_;
  slot(rank_).epoch.store(epoch, std::memory_order_release);
  for (int step = 1; step < size_; ++step) {
    int peer = (rank_ + step) % size_;
    if (fetches_ && !here(peer)) continue;
    Patience patience(oversubscribed_, resting_);
    while (slot(peer).epoch.load(std::memory_order_acquire) < epoch) {
      if (patience.pause()) check(peer);
    }
  }
  if (fetches_) fetch(count);
}

void RankGroup::fetch(size_t count) {
  size_t parity = epoch_ % 2;
  std::vector<double> own;
  for (int peer = 0; peer < size_; ++peer) {
    const double* payload = slot(peer).payload[parity];
    if (here(peer)) own.insert(own.end(), payload, payload + count);
  }
  std::vector<double> all = value_exchange_(numbers_, own);
  if (all.size() != count * static_cast<size_t>(size_)) {
    throw Error("the value exchange between hosts returned " + std::to_string(all.size()) +
                " values in place of " + std::to_string(count * static_cast<size_t>(size_)));
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (here(peer)) continue;
    auto from = all.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(peer) * count);
    std::copy_n(from, count, slot(peer).payload[parity]);
    slot(peer).epoch.store(epoch_, std::memory_order_release);
  }
}

std::vector<double> RankGroup::gather(std::span<const double> values) {
  constexpr size_t kChunk = kPayload / sizeof(double);
  std::vector<double> result(values.size() * static_cast<size_t>(size_));
  for (size_t done = 0; done < values.size(); done += kChunk) {
    size_t count = std::min(kChunk, values.size() - done);
    size_t parity = (epoch_ + 1) % 2;
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(done), count, slot(rank_).payload[parity]);
    meet(count);
    for (int peer = 0; peer < size_; ++peer) {
      double* target = result.data() + static_cast<size_t>(peer) * values.size() + done;
      std::copy_n(slot(peer).payload[parity], count, target);
    }
  }
  return result;
}

std::string RankGroup::text_of(int rank, std::string own) {
  // As the bytes of numbers that are not interpreted.
  own.resize(kTextBytes);
  std::vector<double> words(kTextBytes / sizeof(double));
  std::memcpy(words.data(), own.data(), kTextBytes);
  std::vector<double> all = gather(words);
  std::memcpy(own.data(), all.data() + static_cast<size_t>(rank) * words.size(), kTextBytes);
  return own.substr(0, own.find('\0'));
}

}  // namespace cclmark
