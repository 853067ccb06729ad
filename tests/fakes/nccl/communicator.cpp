#include "nccl/communicator.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <thread>

#include "common/environment.hpp"
#include "nccl/collectives.hpp"
#include "nccl/connection_log.hpp"
#include "nccl/last_error.hpp"
#include "nccl/point_to_point.hpp"

namespace fake_nccl {
namespace {

/// After a failure, the real library's kernels go on waiting for an abort. So does a batch here,
/// for long enough that whoever polls sees the asynchronous error before the stream is idle.
constexpr std::chrono::seconds kLinger{2};

std::shared_ptr<Control> open_checked(const UniqueId& id, int ranks, int rank) {
  require(ranks >= 1 && ranks <= kMostRanks, kInvalidArgument,
          "the number of ranks is not in 1..32");
  require(rank >= 0 && rank < ranks, kInvalidArgument, "the rank is not one of the communicator");
  return open_control(id);
}

/// As NCCL has it, devices are told apart by their host and their place on its bus.
size_t host_hash() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return std::hash<std::string>()(std::string(name.data()) + Runtime::instance().name());
}

}  // namespace

Communicator::Communicator(const UniqueId& id, int ranks, int rank, Channels channels)
    : control_(open_checked(id, ranks, rank)),
      rank_(rank),
      ranks_(ranks),
      device_(Runtime::instance().current_device()),
      architecture_(Runtime::instance().architecture()),
      limit_(wait_limit()) {
  take_seat();
  wait(
      [&] {
        for (int peer = 0; peer < ranks_; ++peer) {
          if (!seat(peer).seated) return false;
        }
        return true;
      },
      "all ranks to join");
  // As in NCCL, plug-ins begin when all ranks are connected: each reports its own plug-in's error.
  plugins_.emplace(control_->nonce, ranks, rank);
  require_different_devices();
  log_connections(rank, ranks);
  // Over the memory of the host there are fewer channels, as in NCCL.
  if (lacks_access()) plugins_->limit_channels(2);
  plugins_->request_channels(channels.least, channels.most);
  take_memory("CCLMARK_FAKE_NCCL_CREATION");
}

void Communicator::take_memory(const char* variable) {
  size_t bytes = fake_common::environment_number(variable, 0, 0);
  if (bytes == 0) return;
  taken_.push_back(Runtime::instance().allocate(bytes));
  taken_bytes_ += bytes;
}

void Communicator::connect() {
  std::call_once(connected_, [this] { take_memory("CCLMARK_FAKE_NCCL_FIRST_USE"); });
}

/// All but the first piece where CCLMARK_FAKE_NCCL_KEEPS is set.
void Communicator::release_memory() {
  if (fake_common::environment_number("CCLMARK_FAKE_NCCL_KEEPS", 0, 0) != 0 && !taken_.empty()) {
    taken_.erase(taken_.begin());
  }
  for (void* memory : taken_) Runtime::instance().release(memory);
  taken_.clear();
}

void Communicator::take_seat() {
  int agreed = 0;
  bool first = control_->ranks.compare_exchange_strong(agreed, ranks_);
  require(first || agreed == ranks_, kInvalidArgument,
          "ranks disagree on how many of them there are");
  int nobody = 0;
  require(seat(rank_).pid.compare_exchange_strong(nobody, getpid()), kInvalidUsage,
          "another process has joined as this rank");
  seat(rank_).device = device_;
  seat(rank_).host = host_hash();
  seat(rank_).seated = true;
  tell();
}

void Communicator::require_different_devices() {
  for (int first = 0; first < ranks_; ++first) {
    for (int second = first + 1; second < ranks_; ++second) {
      if (seat(first).device != seat(second).device) continue;
      if (seat(first).host != seat(second).host) continue;
      throw Failure{kInvalidUsage, "duplicate GPU detected: ranks " + std::to_string(first) +
                                       " and " + std::to_string(second) + " both use device " +
                                       std::to_string(seat(first).device)};
    }
  }
}

/// Whether two of the devices have no access to each other's memory.
bool Communicator::lacks_access() {
  auto is_member = [&](int device) {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (seat(rank).device == device) return true;
    }
    return false;
  };
  for (auto [first, second] : fake_common::environment_pairs("CCLMARK_FAKE_NO_PEER")) {
    if (is_member(first) && is_member(second)) return true;
  }
  return false;
}

void Communicator::wait_for_phase(std::atomic<uint64_t> Seat::* phase, uint64_t reached,
                                  const char* what) {
  wait(
      [&] {
        for (int peer = 0; peer < ranks_; ++peer) {
          if (seat(peer).*phase < reached) return false;
        }
        return true;
      },
      what);
}

void Communicator::barrier() {
  seat(rank_).stream_phase = ++stream_phase_;
  tell();
  wait_for_phase(&Seat::stream_phase, stream_phase_, "a peer in a collective");
}

void Communicator::hang() {
  while (!stop_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  throw Stopped{};
}

std::vector<Message> Communicator::meet(const Message& own) {
  std::lock_guard lock(meeting_);
  std::vector<Message> messages;
  try {
    seat(rank_).message = own;
    seat(rank_).host_phase = ++host_phase_;
    tell();
    wait_for_phase(&Seat::host_phase, host_phase_, "a peer in a call of the host");
    for (int peer = 0; peer < ranks_; ++peer) messages.push_back(seat(peer).message);
    // Nobody may write the next message before everybody has read this one.
    seat(rank_).host_phase = ++host_phase_;
    tell();
    wait_for_phase(&Seat::host_phase, host_phase_, "a peer in a call of the host");
  } catch (const Stopped&) {
    throw Failure{kInvalidUsage, "the communicator was aborted during the call"};
  }
  return messages;
}

void Communicator::run(const std::vector<Operation>& batch) noexcept {
  std::lock_guard lock(running_);
  if (stop_ || async_error_ != kSuccess) return;
  try {
    std::vector<Operation> exchanged;
    for (const Operation& operation : batch) {
      if (operation.hangs) hang();
      std::this_thread::sleep_for(operation.delay);
      if (is_point_to_point(operation.kind)) {
        exchanged.push_back(operation);
      } else {
        run_collective(*this, operation);
      }
    }
    run_exchange(*this, exchanged);
  } catch (const Stopped&) {
    return;
  } catch (const Failure& failure) {
    fail(failure);
  }
}

void Communicator::fail(const Failure& failure) {
  set_last_error(failure.text);
  async_error_ = failure.code;
  auto end = std::chrono::steady_clock::now() + kLinger;
  while (!stop_ && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Communicator::destroy() {
  auto deadline = std::chrono::steady_clock::now() + limit_;
  std::unique_lock lock(running_, std::try_to_lock);
  while (!lock.owns_lock() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock.try_lock();
  }
  stop_ = true;
  require(lock.owns_lock(), kSystemError, "an operation of the communicator does not end");
  release_memory();
}

void Communicator::abort() {
  stop_ = true;
  tell();
  std::lock_guard lock(running_);
  release_memory();
}

fake_common::HandleTable<Communicator>& communicators() {
  static auto* table = new fake_common::HandleTable<Communicator>(32);
  return *table;
}

std::shared_ptr<Communicator> communicator_behind(const void* handle) {
  std::shared_ptr<Communicator> communicator = communicators().find(handle);
  require(communicator != nullptr, kInvalidArgument,
          "the communicator is null, destroyed or was never one");
  return communicator;
}

std::shared_ptr<Communicator> split(Communicator& parent, int color, int key) {
  require(color >= kNoColor, kInvalidArgument, "the color is negative");
  std::vector<Message> wishes = parent.meet({color, key, 0, {}});
  std::vector<int> members;
  for (int peer = 0; peer < parent.ranks(); ++peer) {
    if (wishes[static_cast<size_t>(peer)].color == color) members.push_back(peer);
  }
  std::stable_sort(members.begin(), members.end(), [&](int first, int second) {
    return wishes[static_cast<size_t>(first)].key < wishes[static_cast<size_t>(second)].key;
  });
  bool leads = color != kNoColor && members.front() == parent.rank();
  std::vector<Message> offers = parent.meet({color, key, 0, leads ? create_control() : UniqueId{}});
  if (color == kNoColor) return nullptr;
  auto place = std::find(members.begin(), members.end(), parent.rank()) - members.begin();
  return std::make_shared<Communicator>(offers[static_cast<size_t>(members.front())].id,
                                        static_cast<int>(members.size()), static_cast<int>(place));
}

}  // namespace fake_nccl
