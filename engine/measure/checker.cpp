#include "measure/checker.hpp"

#include <algorithm>
#include <cstring>

#include "core/clock.hpp"

namespace cclmark {
namespace {

#include "kernels/dialect.cu"
#include "kernels/pattern.cu"

constexpr size_t kVectorBytes = 16;
constexpr size_t kHostChunkBytes = size_t{64} << 20;  // a multiple of every element and of 4 KiB

}  // namespace

Checker::Checker(Device& device, void* stream, int rank, int ranks)
    : device_(device),
      stream_(stream),
      rank_(rank),
      ranks_(ranks),
      no_kernels_(device.checked_on_host()),
      counters_(device, kSavedBytes) {
  if (!no_kernels_.empty()) return;
  try {
    fill_ = &device.kernel("cclmark_fill");
    verify_ = &device.kernel("cclmark_verify");
  } catch (const OutOfMemoryError&) {
    throw;
  } catch (const Error& error) {
    no_kernels_ = error.what();  // no compiler, or one that does not know this device
  }
}

void Checker::choose(const Operation& operation, uint32_t seed) {
  bool reduces = info(operation.collective).reduces;
  std::string choice = std::string(name(operation.dtype)) + "/" +
                       (reduces ? std::string(name(operation.reduction)) : "copy") + "/" +
                       std::to_string(seed);
  operation_ = operation;
  seed_ = seed;
  if (choice == chosen_) return;
  tables_.clear();
  if (reduces) {
    tables_.push_back(input_table(operation, rank_, ranks_, seed));
    tables_.push_back(reduced_table(operation, ranks_, seed));
  } else {
    for (int rank = 0; rank < ranks_; ++rank) {
      tables_.push_back(input_table(operation, rank, ranks_, seed));
    }
  }
  size_t bytes = tables_.size() * kTableBytes;
  if (device_tables_.size_bytes() < bytes) device_tables_ = Buffer(device_, bytes);
  device_.copy_from_host(device_tables_.data(), tables_.data(), bytes);
  chosen_ = choice;
}

/// Which of the tables holds the input of `source` (or the reduction).
static size_t table_index(const Operation& operation, int source) {
  if (!info(operation.collective).reduces) return static_cast<size_t>(source);
  return source == Segment::kReduced ? 1 : 0;
}

const Table& Checker::table(int source) const {
  return tables_[table_index(operation_, source)];
}

const std::byte* Checker::device_table(int source) const {
  return device_tables_.data() + table_index(operation_, source) * kTableBytes;
}

void Checker::run(Task task, std::byte* data, size_t bytes, int source, size_t source_element,
                  size_t first_element) {
  if (bytes == 0) return;
  if (!no_kernels_.empty()) {
    return run_on_host(task, data, bytes, source, source_element, first_element);
  }
  size_t width = size_bytes(operation_.dtype);
  PatternArguments arguments{};
  arguments.data = reinterpret_cast<unsigned char*>(data);
  arguments.bytes = bytes;
  arguments.table = reinterpret_cast<const unsigned char*>(device_table(source));
  arguments.source_byte = source_element * width;
  arguments.seed = seed_;
  arguments.element_bytes = static_cast<unsigned>(width);
  arguments.first_element = first_element;
  arguments.wrong_count = reinterpret_cast<unsigned long long*>(counters_.data());
  arguments.first_wrong = arguments.wrong_count + 1;
  device_.launch(task == Task::fill ? *fill_ : *verify_, &arguments,
                 std::max<size_t>(1, bytes / kVectorBytes), stream_);
}

template <typename Action>
void Checker::period(HostWork work, size_t bytes, const Action& action) {
  const int64_t begin_ns = now_ns();
  action();
  if (host_periods_.size() == kMostPeriods) return;
  host_periods_.push_back({work, begin_ns, now_ns(), bytes});
}

void Checker::run_on_host(Task task, std::byte* data, size_t bytes, int source,
                          size_t source_element, size_t first_element) {
  size_t width = size_bytes(operation_.dtype);
  std::vector<std::byte> chunk;
  size_t most = std::min(bytes, kHostChunkBytes);
  period(HostWork::allocation, most, [&] { chunk.resize(most); });
  host_chunk_bytes_ = std::max(host_chunk_bytes_, chunk.size());
  wait_until_idle(device_, stream_);
  for (size_t done = 0; done < bytes; done += chunk.size()) {
    size_t part = std::min(chunk.size(), bytes - done);
    unsigned long long wrong = 0, first = ~0ull;
    PatternArguments arguments{};
    arguments.data = reinterpret_cast<unsigned char*>(chunk.data());
    arguments.bytes = part;
    arguments.table = reinterpret_cast<const unsigned char*>(table(source).data());
    arguments.source_byte = source_element * width + done;
    arguments.seed = seed_;
    arguments.element_bytes = static_cast<unsigned>(width);
    arguments.first_element = first_element + done / width;
    arguments.wrong_count = &wrong;
    arguments.first_wrong = &first;
    if (task == Task::fill) {
      period(HostWork::filling, part, [&] { cclmark_fill(arguments); });
      period(HostWork::copy_to_device, part,
             [&] { device_.copy_from_host(data + done, chunk.data(), part); });
    } else {
      period(HostWork::copy_to_host, part,
             [&] { device_.copy_to_host(chunk.data(), data + done, part); });
      period(HostWork::comparison, part, [&] { cclmark_verify(arguments); });
      host_count_.wrong += wrong;
      host_count_.first_element = std::min<uint64_t>(host_count_.first_element, first);
    }
  }
  period(HostWork::release, most, [&] { std::vector<std::byte>().swap(chunk); });
}

void Checker::fill_input(std::byte* data, size_t bytes) {
  run(Task::fill, data, bytes, rank_, 0, 0);
}

void Checker::begin() {
  host_count_ = {0, ~uint64_t{0}};
  device_.fill_bytes(counters_.data(), 0, sizeof(unsigned long long), stream_);
  device_.fill_bytes(counters_.data() + sizeof(unsigned long long), 0xff,
                     sizeof(unsigned long long), stream_);
}

void Checker::check(const std::byte* output, const Segment& segment) {
  size_t width = size_bytes(operation_.dtype);
  auto data = const_cast<std::byte*>(output) + segment.output_element * width;
  run(Task::compare, data, segment.count * width, segment.source, segment.source_element,
      segment.output_element);
}

Checker::Count Checker::result() {
  return no_kernels_.empty() ? saved(counters_.data()) : host_count_;
}

void Checker::save(std::byte* to) {
  device_.copy_async(to, counters_.data(), kSavedBytes, stream_);
}

Checker::Count Checker::saved(const std::byte* from) const {
  unsigned long long values[2];
  static_assert(sizeof(values) == kSavedBytes);
  device_.copy_to_host(values, from, sizeof(values));
  return {values[0], values[1]};
}

std::vector<MemoryBlock> Checker::memory_blocks() const {
  std::vector<MemoryBlock> blocks;
  auto add = [&](const char* purpose, MemoryPlace place, size_t bytes, const void* address) {
    if (bytes == 0) return;
    blocks.push_back({.purpose = purpose, .place = place, .bytes = bytes, .address = address});
  };
  MemoryPlace place = place_of_allocations(device_);
  add("patterns of inputs and results", place, device_tables_.size_bytes(), device_tables_.data());
  add("result of the check", place, counters_.size_bytes(), counters_.data());
  add("patterns of inputs and results", MemoryPlace::host, tables_.size() * kTableBytes,
      tables_.data());
  add("piece that is filled or checked on the host", MemoryPlace::host, host_chunk_bytes_, nullptr);
  return blocks;
}

uint64_t Checker::expected_bits(const Segment& segment, size_t offset) const {
  auto bytes = pattern_element(table(segment.source), operation_.dtype,
                               segment.source_element + offset, seed_);
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data(), bytes.size());
  return bits;
}

}  // namespace cclmark
