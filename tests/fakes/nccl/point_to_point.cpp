#include "nccl/point_to_point.hpp"

#include <cstring>
#include <deque>
#include <map>

#include "nccl/collectives.hpp"
#include "nccl/communicator.hpp"

namespace fake_nccl {
namespace {

/// The transfers of this rank with one peer that are yet to be done, in one direction.
struct Lane {
  std::deque<const Operation*> waiting;
  bool posted = false;  ///< sends only: the first lies in the mailbox
};

/// The sender says where its data lies, the receiver copies them and says so.
class Exchange {
 public:
  Exchange(Communicator& communicator, const std::vector<Operation>& operations)
      : communicator_(communicator) {
    for (const Operation& operation : operations) {
      auto& lanes = operation.kind == Kind::send ? sends_ : receives_;
      lanes[operation.root].waiting.push_back(&operation);
    }
  }

  void run() {
    communicator_.wait([&] { return advance(); }, "a peer to send or receive");
  }

 private:
  /// Does what can be done. True when nothing is left.
  bool advance() {
    bool done = true;
    for (auto& [peer, lane] : sends_) done &= advance_send(peer, lane);
    for (auto& [peer, lane] : receives_) done &= advance_receive(peer, lane);
    return done;
  }

  bool advance_send(int peer, Lane& lane) {
    Mailbox& mail = communicator_.mail(communicator_.rank(), peer);
    bool free = mail.taken == mail.posted;
    if (lane.posted && free) {
      lane.posted = false;
      lane.waiting.pop_front();
    }
    if (lane.waiting.empty()) return true;
    if (!lane.posted && free) {
      mail.place = lane.waiting.front()->send_place;
      mail.bytes = bytes(*lane.waiting.front());
      ++mail.posted;
      communicator_.tell();
      lane.posted = true;
    }
    return false;
  }

  bool advance_receive(int peer, Lane& lane) {
    if (lane.waiting.empty()) return true;
    Mailbox& mail = communicator_.mail(peer, communicator_.rank());
    if (mail.posted == mail.taken) return false;
    const Operation& operation = *lane.waiting.front();
    if (mail.bytes != bytes(operation)) {
      throw Failure{kInvalidUsage, "rank " + std::to_string(peer) + " sends " +
                                       std::to_string(mail.bytes) + " bytes where rank " +
                                       std::to_string(communicator_.rank()) + " receives " +
                                       std::to_string(bytes(operation))};
    }
    std::memmove(operation.receive, communicator_.memory(peer, mail.place), mail.bytes);
    ++mail.taken;
    communicator_.tell();
    lane.waiting.pop_front();
    return lane.waiting.empty();
  }

  static size_t bytes(const Operation& operation) {
    return operation.count * size_bytes(operation.dtype);
  }

  Communicator& communicator_;
  std::map<int, Lane> sends_;
  std::map<int, Lane> receives_;
};

}  // namespace

void run_exchange(Communicator& communicator, const std::vector<Operation>& operations) {
  Exchange(communicator, operations).run();
  for (const Operation& operation : operations) {
    corrupt_if_asked(operation, communicator.rank(), communicator.ranks());
  }
}

}  // namespace fake_nccl
