#include "transfer/exchange.hpp"

namespace cclmark {
namespace {

// The size of the driver's blocks: a handle refers to the beginning of a block, so memory consists
// of whole blocks.
constexpr size_t kAlignment = size_t{2} << 20;

size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void Exchange::reserve(size_t bytes, size_t landings) {
  if (bytes <= bytes_ && landings <= landings_) return;
  bytes_ = landings_ = 0;
  stride_ = aligned(bytes);
  blocks_.reserve(stride_ * (1 + landings) + aligned(kScratchBytes));
  bytes_ = bytes;
  landings_ = landings;
}

std::byte* Exchange::source(int user, int number) {
  return blocks_.at(user, number);
}

std::byte* Exchange::landing(int user, int number, size_t place) {
  return blocks_.at(user, number) + stride_ * (1 + place);
}

std::byte* Exchange::scratch(int user, int number) {
  return blocks_.at(user, number) + stride_ * (1 + landings_);
}

}  // namespace cclmark
