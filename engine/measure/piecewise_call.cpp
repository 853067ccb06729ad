#include "measure/piecewise_call.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "collective/table.hpp"

namespace cclmark {
namespace {

class PiecewiseCall final : public Call {
 public:
  PiecewiseCall(Communicator& communicator, const Operation& operation, const Pieces& pieces,
                void* stream)
      : communicator_(communicator), is_grouped_(pieces.grouped) {
    size_t width = size_bytes(operation.dtype), begin = 0;
    parts_.reserve(pieces.counts.size());
    for (size_t count : pieces.counts) {
      parts_.push_back({call_of(operation, count, stream), begin * width});
      begin += count;
    }
  }

  void prepare(const void* send, void* receive) override {
    for (const Part& part : parts_) part.call->prepare(after(send, part), after(receive, part));
  }

  void enqueue(const void* send, void* receive) override {
    if (!is_grouped_) {
      enqueue_all(send, receive);
      return;
    }
    in_group([this] { communicator_.begin_group(); }, [&] { enqueue_all(send, receive); },
             [this] { communicator_.end_group(); });
  }

  std::string kernel() const override { return calls_.front().call->kernel(); }

 private:
  struct Bound {
    size_t count;
    std::unique_ptr<Call> call;
  };
  struct Part {
    Call* call;
    size_t offset;  ///< in bytes
  };

  static const std::byte* after(const void* memory, const Part& part) {
    return static_cast<const std::byte*>(memory) + part.offset;
  }
  static std::byte* after(void* memory, const Part& part) {
    return static_cast<std::byte*>(memory) + part.offset;
  }

  /// Parts of equal length share a call: pieces have few different lengths.
  Call* call_of(Operation operation, size_t count, void* stream) {
    auto known = std::ranges::find(calls_, count, &Bound::count);
    if (known != calls_.end()) return known->call.get();
    operation.count = count;
    calls_.push_back({count, communicator_.bind(operation, stream)});
    return calls_.back().call.get();
  }

  void enqueue_all(const void* send, void* receive) {
    const Part& first = parts_.front();
    first.call->enqueue(after(send, first), after(receive, first));
    try {
      for (size_t i = 1; i < parts_.size(); ++i) {
        const Part& part = parts_[i];
        part.call->enqueue(after(send, part), after(receive, part));
      }
    } catch (const RefusedError& error) {
      throw Error(error.what());
    } catch (const UnsupportedError& error) {
      throw Error(error.what());
    }
  }

  Communicator& communicator_;
  bool is_grouped_;
  std::vector<Bound> calls_;
  std::vector<Part> parts_;
};

}  // namespace

std::unique_ptr<Call> bind_pieces(Communicator& communicator, const Operation& operation,
                                  const Pieces& pieces, void* stream) {
  if (pieces.counts.empty()) return communicator.bind(operation, stream);
  if (!info(operation.collective).divisible) {
    throw Error(std::string(name(operation.collective)) +
                ": its pieces are not consecutive parts of the buffers");
  }
  size_t sum = std::accumulate(pieces.counts.begin(), pieces.counts.end(), size_t{0});
  if (sum != operation.count || std::ranges::find(pieces.counts, 0U) != pieces.counts.end()) {
    throw Error("the pieces do not add up to the operation, or one is empty");
  }
  return std::make_unique<PiecewiseCall>(communicator, operation, pieces, stream);
}

}  // namespace cclmark
