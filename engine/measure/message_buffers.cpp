#include "measure/message_buffers.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <vector>

namespace cclmark {
namespace {

constexpr size_t kAlignment = 512;
constexpr size_t kCachesPerBuffer = 3;
constexpr size_t kMostSpareBytes = size_t{1} << 28;

size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// The largest value over all ranks, so that every rank places its messages alike.
size_t largest(size_t (*count)(const Operation&, int, int), const Operation& op, int ranks) {
  size_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) most = std::max(most, count(op, rank, ranks));
  return most * size_bytes(op.dtype);
}

}  // namespace

Room room_for(const Operation& operation, bool in_place, int ranks) {
  const CollectiveInfo& row = info(operation.collective);
  Room room{aligned(largest(row.send_count, operation, ranks)),
            aligned(largest(row.receive_count, operation, ranks))};
  if (in_place) {
    // Input and output share the receive buffer; the input is copied aside to the send buffer.
    room.receive_bytes = std::max(room.send_bytes, room.receive_bytes);
    if (!row.staged_in_place) room.send_bytes = 0;
  }
  return room;
}

MessageBuffers::MessageBuffers(Device& device, RankGroup& rank_group, Communicator& communicator)
    : device_(device), rank_group_(rank_group), communicator_(communicator) {}

MessageBuffers::~MessageBuffers() {
  release();
}

void MessageBuffers::release() noexcept {
  release(send_);
  release(receive_);
  send_ = receive_ = nullptr;
  capacity_ = {};
  filled_with_.clear();
}

void MessageBuffers::release(std::byte* memory) noexcept {
  if (memory == nullptr) return;
  if (kind_.registration != Registration::none) {
    communicator_.deregister_memory(memory, kind_.registration);
  }
  if (kind_.memory == MemoryKind::foreign) {
    device_.disown(memory);
    return kind_.source->release(memory);
  }
  communicator_.release(device_, memory, kind_.memory);
}

std::byte* MessageBuffers::allocate(size_t bytes) {
  if (kind_.memory != MemoryKind::foreign) {
    return static_cast<std::byte*>(communicator_.allocate(device_, bytes, kind_.memory));
  }
  void* memory = kind_.source->allocate(bytes);
  device_.adopt(memory, bytes);
  return static_cast<std::byte*>(memory);
}

Room MessageBuffers::with_spare(const Room& room) const {
  size_t spare = std::min(kCachesPerBuffer * device_.info().cache_bytes, kMostSpareBytes);
  // Host ranks share one cache among all their buffers.
  if (device_.info().runtime == "host") spare /= 2 * static_cast<size_t>(rank_group_.size());
  return {aligned(std::max(room.send_bytes, spare)), aligned(std::max(room.receive_bytes, spare))};
}

bool MessageBuffers::suffice(const Room& room, const BufferKind& kind) const {
  Room required = with_spare(room);
  return kind == kind_ && required.send_bytes <= capacity_.send_bytes &&
         required.receive_bytes <= capacity_.receive_bytes;
}

void MessageBuffers::allocate(const Room& room, const BufferKind& kind) {
  release();
  kind_ = kind;
  Room required = with_spare(room);
  bool registers = kind.registration != Registration::none;
  // Registration may be a collective call, so no rank starts it before all have their memory.
  std::exception_ptr failure;
  try {
    std::string reason = registers ? communicator_.no_registration(kind.registration) : "";
    if (!reason.empty()) throw UnsupportedError(reason);
    send_ = allocate(required.send_bytes);
    receive_ = allocate(required.receive_bytes);
  } catch (const OutOfMemoryError&) {
    failure = std::current_exception();
  } catch (const UnsupportedError&) {
    failure = std::current_exception();
  }
  std::vector<double> failed = rank_group_.gather(std::array<double, 1>{failure ? 1.0 : 0.0});
  if (failure) std::rethrow_exception(failure);
  if (std::ranges::count(failed, 1.0) > 0) {
    throw OutOfMemoryError("another rank could not allocate its buffers");
  }
  if (registers) {
    communicator_.register_memory(send_, required.send_bytes, kind.registration);
    communicator_.register_memory(receive_, required.receive_bytes, kind.registration);
  }
  capacity_ = required;
}

void MessageBuffers::divide(const Operation& operation, bool in_place) {
  const CollectiveInfo& row = info(operation.collective);
  int rank = rank_group_.rank(), n = rank_group_.size();
  size_t width = size_bytes(operation.dtype);
  Room room = room_for(operation, in_place, n);
  send_stride_ = room.send_bytes;
  receive_stride_ = room.receive_bytes;
  if (send_stride_ > capacity_.send_bytes || receive_stride_ > capacity_.receive_bytes) {
    throw Error("the reserved buffers are too small for this operation");
  }
  size_t most = std::numeric_limits<size_t>::max();
  slots_ = std::min(send_stride_ > 0 ? capacity_.send_bytes / send_stride_ : most,
                    receive_stride_ > 0 ? capacity_.receive_bytes / receive_stride_ : most);
  if (slots_ == most) slots_ = 1;

  input_ = {send_, row.send_count(operation, rank, n) * width};
  output_ = {receive_, row.receive_count(operation, rank, n) * width};
  if (in_place) {
    input_.data = receive_ + row.send_offset(operation, rank, n) * width;
    output_.data = receive_ + row.receive_offset(operation, rank, n) * width;
  }
  in_place_ = in_place;
  is_staged_ = in_place && row.staged_in_place;
  source_ = is_staged_ ? send_ : input_.data;
  source_stride_ = in_place && !is_staged_ ? receive_stride_ : send_stride_;
}

void MessageBuffers::fill(const Operation& operation, Checker& checker) {
  bool reduces = info(operation.collective).reduces;
  std::string content = std::string(name(operation.dtype)) + "/" +
                        (reduces ? std::string(name(operation.reduction)) : "copy");
  if (content == filled_with_) return;
  checker.fill_input(send_, capacity_.send_bytes);
  checker.fill_input(receive_, capacity_.receive_bytes);
  filled_with_ = content;
}

std::vector<MemoryBlock> MessageBuffers::memory_blocks(const std::string& input_values,
                                                       const std::string& output_values) const {
  std::vector<MemoryBlock> blocks;
  auto add = [&](std::string purpose, const std::byte* data, size_t bytes, size_t used_bytes,
                 const std::string& values) {
    if (data == nullptr) return;
    if (kind_.registration == Registration::local) purpose += ", registered";
    if (kind_.registration == Registration::symmetric) purpose += ", symmetric window";
    blocks.push_back({.purpose = std::move(purpose),
                      .place = communicator_.place_of_buffers(device_),
                      .bytes = bytes,
                      .used_bytes = used_bytes,
                      .first_values = used_bytes > 0 ? values : "",
                      .address = data});
  };
  if (!in_place_) {
    add("input", send_, capacity_.send_bytes, input_.bytes, input_values);
    add("output", receive_, capacity_.receive_bytes, output_.bytes, output_values);
    return blocks;
  }
  add(is_staged_ ? "copy of the input" : "unused in place", send_, capacity_.send_bytes,
      is_staged_ ? input_.bytes : 0, input_values);
  add("input and output", receive_, capacity_.receive_bytes, std::max(input_.bytes, output_.bytes),
      output_values);
  return blocks;
}

void MessageBuffers::stage(size_t slot, void* stream) {
  // Staged operations are in place, so their input is in the receive buffer.
  const std::byte* input = input_.data + slot * receive_stride_;
  device_.copy_async(send_ + slot * send_stride_, input, input_.bytes, stream);
}

}  // namespace cclmark
