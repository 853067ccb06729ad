#include "measure/verification.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "collective/values.hpp"

namespace cclmark {

static constexpr int kPoison = 0xa5;
static constexpr size_t kFirstValues = 3;

Verification::Verification(Device& device, void* stream, RankGroup& rank_group,
                           Communicator& communicator)
    : device_(device),
      stream_(stream),
      rank_group_(rank_group),
      communicator_(communicator),
      begin_(device),
      end_(device),
      checker_(device, stream, rank_group.rank(), rank_group.size()) {}

void Verification::prepare(const Operation& operation, uint32_t seed, MessageBuffers& buffers) {
  operation_ = operation;
  checker_.choose(operation, seed);
  buffers.fill(operation, checker_);
}

VerificationResult Verification::verify(const MessageBuffers& buffers,
                                        const std::function<void()>& run_once,
                                        std::optional<size_t> corrupt) {
  const CollectiveInfo& row = info(operation_.collective);
  auto segments = row.expected(operation_, rank_group_.rank(), rank_group_.size());
  const Region &input = buffers.input(), &output = buffers.output();
  checker_.begin();
  device_.fill_bytes(output.data, kPoison, output.bytes, stream_);
  checker_.fill_input(input.data, input.bytes);
  run_once();
  if (corrupt) invert(output, *corrupt);
  device_.record(begin_.get(), stream_);
  for (const Segment& segment : segments) checker_.check(output.data, segment);
  device_.record(end_.get(), stream_);
  wait_until_idle(device_, stream_, communicator_, rank_group_);
  Finding own = describe(checker_.result(), output, segments);
  return gather(own, device_.elapsed_s(begin_.get(), end_.get()));
}

/// Inverts the bits of one element of the output, if the output has that many.
void Verification::invert(const Region& output, size_t index) {
  size_t width = size_bytes(operation_.dtype);
  if (index >= output.bytes / width) return;
  std::array<std::byte, 8> element{};
  device_.copy_to_host(element.data(), output.data + index * width, width);
  for (std::byte& byte : element) byte = ~byte;
  device_.copy_from_host(output.data + index * width, element.data(), width);
}

/// Describes the first wrong element: the expected and the actual value.
Finding Verification::describe(const Checker::Count& count, const Region& output,
                               const std::vector<Segment>& segments) {
  if (count.wrong == 0) return {};
  Finding finding{count.wrong, count.first_element, 0, 0};
  size_t width = size_bytes(operation_.dtype);
  device_.copy_to_host(&finding.actual_bits, output.data + count.first_element * width, width);
  for (const Segment& segment : segments) {
    if (count.first_element < segment.output_element) continue;
    size_t offset = count.first_element - segment.output_element;
    if (offset < segment.count) finding.expected_bits = checker_.expected_bits(segment, offset);
  }
  return finding;
}

std::string Verification::first_inputs(size_t bytes) const {
  Segment whole{.output_element = 0,
                .count = bytes / size_bytes(operation_.dtype),
                .source = rank_group_.rank(),
                .source_element = 0};
  return first_of(whole);
}

std::string Verification::first_outputs() const {
  auto segments =
      info(operation_.collective).expected(operation_, rank_group_.rank(), rank_group_.size());
  auto filled =
      std::ranges::find_if(segments, [](const Segment& segment) { return segment.count > 0; });
  return filled != segments.end() ? first_of(*filled) : "";
}

std::string Verification::first_of(const Segment& segment) const {
  std::string dtype(name(operation_.dtype)), text;
  for (size_t i = 0; i < std::min(segment.count, kFirstValues); ++i) {
    if (i > 0) text += ' ';
    text += format_value(dtype, checker_.expected_bits(segment, i));
  }
  return segment.count > kFirstValues ? text + " ..." : text;
}

/// The findings of all ranks, on every rank.
VerificationResult Verification::gather(const Finding& own, double compare_s) {
  auto pack = [](uint64_t bits) { return std::bit_cast<double>(bits); };
  constexpr size_t kWords = 5;
  std::vector<double> all = rank_group_.gather(
      std::array<double, kWords>{pack(own.wrong), pack(own.first_element), pack(own.expected_bits),
                                 pack(own.actual_bits), compare_s});
  VerificationResult checked;
  for (size_t i = 0; i < all.size(); i += kWords) {
    auto unpack = [&](size_t k) { return std::bit_cast<uint64_t>(all[i + k]); };
    checked.findings.push_back({unpack(0), unpack(1), unpack(2), unpack(3)});
    checked.compare_s = std::max(checked.compare_s, all[i + 4]);
  }
  return checked;
}

}  // namespace cclmark
