#include "ccl/remote_slots.hpp"

#include <chrono>
#include <utility>

#include "core/clock.hpp"
#include "core/waiting.hpp"

namespace cclmark {
namespace {

/// Limit for transfers still in flight at destruction, which only occur in a failed run.
constexpr double kLastSeconds = 5;
constexpr std::chrono::milliseconds kRest{1};

}  // namespace

RemoteSlots::RemoteSlots(HostExchange& host_exchange, RankGroup& rank_group, bool crowded,
                         SlotLayout layout, std::byte* own, std::vector<std::byte*> mirrors)
    : host_exchange_(host_exchange),
      rank_group_(rank_group),
      crowded_(crowded),
      layout_(layout),
      own_(own),
      mirrors_(std::move(mirrors)),
      sources_(mirrors_.size()),
      thread_([this] { move_on(); }) {}

RemoteSlots::~RemoteSlots() {
  {
    std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  ordered_.notify_one();
  thread_.join();
}

void RemoteSlots::drain() {
  uint64_t ordered = 0;
  {
    std::scoped_lock lock(mutex_);
    ordered = orders_;
  }
  Patience patience(crowded_);
  while (settled_.load(std::memory_order_acquire) < ordered) {
    if (!patience.pause()) continue;
    check();
    rank_group_.check(RankGroup::kElsewhere);
  }
}

void RemoteSlots::send(int reader, uint32_t sequence, const std::byte* data, size_t bytes) {
  {
    std::scoped_lock lock(mutex_);
    to_send_.push_back({reader, sequence, data, bytes});
    ++orders_;
  }
  ordered_.notify_one();
}

void RemoteSlots::expect(int source, uint32_t sequence, size_t at, size_t bytes) {
  {
    std::scoped_lock lock(mutex_);
    to_receive_.push_back({source, sequence, at, bytes, 0});
    ++orders_;
  }
  ordered_.notify_one();
}

void RemoteSlots::check() {
  std::scoped_lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void RemoteSlots::move_on() {
  try {
    Patience patience(crowded_);
    std::optional<Deadline> last;
    for (bool settled = true; !rank_group_.aborted();) {
      {
        std::unique_lock lock(mutex_);
        auto something = [&] { return ending_ || !to_send_.empty() || !to_receive_.empty(); };
        if (settled) ordered_.wait_for(lock, kRest, something);
        if (something() && take_orders()) patience = Patience(crowded_);
        if (ending_ && !last) last.emplace(kLastSeconds);
      }
      // What was sent may need the library's help also while nothing can be begun or asked for.
      host_exchange_.keep_going();
      bool moved = progress();
      settled = unsent_.empty() && sent_.empty();
      for (const Source& source : sources_) settled = settled && source.expected.empty();
      if (settled) settled_.store(orders_seen_, std::memory_order_release);
      if (last && (settled || last->passed())) return;
      if (moved) {
        patience = Patience(crowded_);
      } else {
        patience.pause();
      }
    }
  } catch (...) {
    {
      std::scoped_lock lock(mutex_);
      failure_ = std::current_exception();
    }
    // No further data will arrive, here or on other hosts; check() reports the reason.
    rank_group_.abort();
  }
}

/// Returns whether there were any. With the lock.
bool RemoteSlots::take_orders() {
  bool any = !to_send_.empty() || !to_receive_.empty();
  unsent_.insert(unsent_.end(), to_send_.begin(), to_send_.end());
  for (const Incoming& order : to_receive_) {
    sources_[static_cast<size_t>(order.source)].expected.push_back(order);
  }
  to_send_.clear();
  to_receive_.clear();
  orders_seen_ = orders_;
  return any;
}

/// Returns whether anything moved.
bool RemoteSlots::progress() {
  bool moved = send_published();
  for (size_t rank = 0; rank < sources_.size(); ++rank) {
    if (!sources_[rank].expected.empty() && receive_from(rank)) moved = true;
  }
  return moved;
}

bool RemoteSlots::send_published() {
  bool moved = false;
  while (!unsent_.empty() && reached(own_, layout_.ready(), unsent_.front().sequence)) {
    const Outgoing& next = unsent_.front();
    sent_.push_back({next.reader, next.sequence,
                     host_exchange_.send(next.reader, next.sequence, next.data, next.bytes)});
    unsent_.pop_front();
    moved = true;
  }
  std::erase_if(sent_, [&](const Sent& one) {
    if (!host_exchange_.done(one.number)) return false;
    raise_flag(own_, layout_.taken(one.reader, one.sequence), one.sequence);
    return moved = true;
  });
  return moved;
}

bool RemoteSlots::receive_from(size_t rank) {
  Source& source = sources_[rank];
  std::byte* mirror = mirrors_[rank];
  bool moved = false;
  for (; source.begun < source.expected.size(); ++source.begun) {
    Incoming& next = source.expected[source.begun];
    std::optional<uint32_t>& before = source.in_slots[next.sequence % kSlots];
    if (before && !reached(mirror, layout_.taken(rank_group_.rank(), *before), *before)) break;
    before = next.sequence;
    std::byte* to = mirror + layout_.flag_bytes() + layout_.place(next.sequence) + next.at;
    next.number = host_exchange_.receive(next.source, next.sequence, to, next.bytes);
    moved = true;
  }
  // The flag says that everything up to a number is there, so in their order.
  while (source.begun > 0 && host_exchange_.done(source.expected.front().number)) {
    raise_flag(mirror, layout_.ready(), source.expected.front().sequence);
    source.expected.pop_front();
    --source.begun;
    moved = true;
  }
  return moved;
}

}  // namespace cclmark
