#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "common/handle_table.hpp"
#include "nccl/control.hpp"
#include "nccl/peer_memory.hpp"
#include "nccl/plugins.hpp"

namespace fake_nccl {

/// The numbers of channels that a caller asks for; 0 for what it leaves to the library.
struct Channels {
  int least = 0;
  int most = 0;
};

/// A rank's place among its ranks.
///
/// Operations run on the threads of streams, one batch at a time; the ranks of a communicator have
/// to enqueue the same collectives in the same order, on one stream at a time.
class Communicator {
 public:
  /// Blocks until all ranks came. Raises Failure.
  Communicator(const UniqueId& id, int ranks, int rank, Channels channels = {});

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int architecture() const { return architecture_; }
  Result async_error() const { return async_error_; }

  Plugins& plugins() { return *plugins_; }

  /// Takes the device memory of CCLMARK_FAKE_NCCL_FIRST_USE, once. To be called by the thread that
  /// enqueues. Raises Failure.
  void connect();
  /// The device memory that the communicator has taken.
  size_t taken_bytes() const { return taken_bytes_; }

  /// Runs what was enqueued together; what goes wrong becomes the asynchronous error.
  void run(const std::vector<Operation>& batch) noexcept;
  /// Exchanges a message with every rank, on the threads that call. Raises Failure.
  std::vector<Message> meet(const Message& own);
  /// Waits for the batch that runs; what runs later does nothing. Raises Failure when it hangs.
  void destroy();
  /// Ends all waits at once.
  void abort();

  // For operations, while they run:

  Seat& seat(int rank) { return control_->seats[static_cast<size_t>(rank)]; }
  Mailbox& mail(int from, int to) {
    return control_->mail[static_cast<size_t>(from)][static_cast<size_t>(to)];
  }
  /// To be called after a change that others may wait for.
  void tell() { control_->bell.ring(); }
  /// Waits until all ranks are here. Raises Stopped or Failure.
  void barrier();
  /// Waits until the communicator is aborted.
  [[noreturn]] void hang();
  std::byte* memory(int rank, const Place& place) { return peers_.at(seat(rank).pid, place); }
  template <typename Predicate>
  void wait(Predicate done, const char* what) {
    wait_until(done, control_->bell, stop_, limit_, what);
  }

 private:
  void take_memory(const char* variable);
  void release_memory();
  void take_seat();
  void require_different_devices();
  bool lacks_access();
  void fail(const Failure& failure);
  void wait_for_phase(std::atomic<uint64_t> Seat::* phase, uint64_t reached, const char* what);

  const std::shared_ptr<Control> control_;
  const int rank_;
  const int ranks_;
  const int device_;
  const int architecture_;
  const std::chrono::seconds limit_;
  std::optional<Plugins> plugins_;  // until all ranks came, none
  std::atomic<bool> stop_{false};
  std::atomic<Result> async_error_{kSuccess};

  std::mutex running_;
  PeerMemory peers_;
  uint64_t stream_phase_ = 0;

  std::mutex meeting_;
  uint64_t host_phase_ = 0;

  std::once_flag connected_;
  std::vector<void*> taken_;
  size_t taken_bytes_ = 0;
};

/// All communicators of the process.
fake_common::HandleTable<Communicator>& communicators();
/// The communicator behind a handle. Raises Failure.
std::shared_ptr<Communicator> communicator_behind(const void* handle);
/// This rank's new communicator among the ranks that gave the same color, in order of key; nullptr
/// for kNoColor. Every rank of `parent` has to call it. Raises Failure.
std::shared_ptr<Communicator> split(Communicator& parent, int color, int key);

}  // namespace fake_nccl
