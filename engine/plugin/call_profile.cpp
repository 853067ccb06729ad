#include "plugin/call_profile.hpp"

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace cclmark::plugin {

namespace {

constexpr std::uint64_t kNone = ~std::uint64_t{0};
constexpr std::uint64_t kMostKernelNs = 86'400'000'000'000;  // a day
constexpr std::size_t kKernelMark = 1;  // added to the address of an operation: one of its kernels

void* reserve(std::size_t bytes) {
  void* found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return found == MAP_FAILED ? nullptr : found;
}

template <typename Value>
Value* reserve_array(std::uint64_t count) {
  return static_cast<Value*>(reserve(count * sizeof(Value)));
}

std::atomic_ref<std::uint64_t> counter(std::uint64_t& value) {
  return std::atomic_ref<std::uint64_t>(value);
}

void lower(std::atomic<std::uint64_t>& value, std::uint64_t to) {
  std::uint64_t now = value.load(std::memory_order_relaxed);
  while (to < now && !value.compare_exchange_weak(now, to, std::memory_order_relaxed)) {
  }
}

void raise(std::atomic<std::uint64_t>& value, std::uint64_t to) {
  std::uint64_t now = value.load(std::memory_order_relaxed);
  while (to > now && !value.compare_exchange_weak(now, to, std::memory_order_relaxed)) {
  }
}

/// Whether records describe the same, apart from what they count. `device_ns` is the stream of a
/// called record and the kind of an operation; `parent` is the called record of an operation, and a
/// counter of a called record. `root` is not compared: a rank may have as many peers as the
/// communicator has ranks.
bool is_same(const Record& one, const Record& other) {
  const bool is_operation = one.kind == static_cast<std::uint32_t>(RecordKind::operation);
  return one.kind == other.kind && one.communicator == other.communicator &&
         one.rank == other.rank && one.count == other.count && one.device_ns == other.device_ns &&
         one.channels == other.channels && one.warps == other.warps &&
         (!is_operation || one.parent == other.parent) &&
         std::memcmp(one.function, other.function, sizeof(Record) - offsetof(Record, function)) ==
             0;
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15U + (hash << 6U) + (hash >> 2U);
  return hash * 0xBF58476D1CE4E5B9U;
}

std::uint64_t hash_of(const Record& one) {
  std::uint64_t hash = mix(one.kind, one.communicator);
  hash = mix(mix(mix(hash, one.count), one.device_ns), one.channels);
  for (std::size_t at = offsetof(Record, function); at < sizeof(Record); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, reinterpret_cast<const char*>(&one) + at, sizeof word);
    hash = mix(hash, word);
  }
  return hash ^ (hash >> 31U);
}

}  // namespace

CallProfile::CallProfile(EventLog& log, Running* running, Called* called, std::uint64_t* table)
    : log_(log), running_(running), called_(called), table_(table) {}

CallProfile* CallProfile::instance() {
  static CallProfile* const profile = []() -> CallProfile* {
    EventLog* log = EventLog::instance();
    auto* running = reserve_array<Running>(kRunning);
    auto* called = reserve_array<Called>(kMostDistinct);
    auto* table = reserve_array<std::uint64_t>(kSlots);
    if (log == nullptr || running == nullptr || called == nullptr || table == nullptr) {
      return nullptr;
    }
    return new (std::nothrow) CallProfile(*log, running, called, table);
  }();
  return profile;
}

std::uint64_t CallProfile::find(const Record& described, std::uint64_t& slot) const {
  slot = hash_of(described) % kSlots;
  while (true) {  // some slots are always empty
    const std::uint64_t number = table_[slot];
    if (number == 0 || is_same(*log_.at(number), described)) {
      return number;
    }
    slot = (slot + 1) % kSlots;
  }
}

std::uint64_t CallProfile::add(const Record& described, std::uint64_t slot) {
  if (distinct_ >= kMostDistinct) {
    log_.lose();
    return 0;
  }
  const std::uint64_t number = log_.append(described);
  if (number == 0) {
    return 0;  // the log has counted it
  }
  if (described.kind == static_cast<std::uint32_t>(RecordKind::operation)) {
    Record times{};
    times.kind = static_cast<std::uint32_t>(RecordKind::kernel_times);
    times.communicator = number;
    const std::uint64_t place = log_.append(times);
    if (place != 0) {
      log_.at(number)->time_ns = place;
      reinterpret_cast<KernelTimes*>(log_.at(place))->least_ns = kNone;
    }
  }
  table_[slot] = number;
  ++distinct_;
  return number;
}

std::uint64_t CallProfile::find_or_add(Record& described) {
  const std::lock_guard lock(mutex_);
  std::uint64_t slot = 0;
  if (const std::uint64_t number = find(described, slot); number != 0) {
    return number;
  }
  if (distinct_ >= kMostExact && described.count > 0) {
    std::uint64_t least = described.count;
    while ((least & (least - 1)) != 0) {
      least &= least - 1;
    }
    described.count = least;
    described.warps = 1;
    if (const std::uint64_t number = find(described, slot); number != 0) {
      return number;
    }
  }
  return add(described, slot);
}

void* CallProfile::count_call(Record described, bool is_captured) {
  described.kind = static_cast<std::uint32_t>(RecordKind::called);
  described.time_ns = 0;
  described.parent = 0;
  described.sequence = 0;
  described.root = -1;
  const std::uint64_t number = find_or_add(described);
  if (number == 0) {
    return nullptr;
  }
  Record* record = log_.at(number);
  counter(is_captured ? record->parent : record->sequence).fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (record->time_ns == 0) {  // there are as many places as records
    called_[called_count_].number = number;
    record->time_ns = ++called_count_;
  }
  return &called_[record->time_ns - 1];
}

std::uint64_t CallProfile::called_number(const void* handle) const {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(called_);
  const std::uint64_t index = offset / sizeof(Called);
  return index < kMostDistinct ? called_[index].number : 0;
}

void* CallProfile::count_operation(Record described, const void* parent) {
  Record call{};
  call.kind = static_cast<std::uint32_t>(RecordKind::call);
  call.rank = described.rank;
  call.communicator = described.communicator;
  call.time_ns = described.time_ns;
  call.sequence = described.sequence;
  call.root = described.root;
  call.channels = described.channels;
  const std::uint64_t elements = described.count;
  const bool is_collective = described.kind == static_cast<std::uint32_t>(RecordKind::collective);
  const bool is_message = described.kind == static_cast<std::uint32_t>(RecordKind::point_to_point);
  // NCCL reports a kernel of symmetric collectives of one group by the first one of them; the
  // others have no channels.
  const bool is_symmetric =
      described.kind == static_cast<std::uint32_t>(RecordKind::symmetric_collective);
  // NCCL reports no kernel of a message of a rank to itself.
  const bool has_kernels =
      is_collective || is_symmetric || (is_message && described.root != described.rank);

  described.device_ns = described.kind;
  described.kind = static_cast<std::uint32_t>(RecordKind::operation);
  described.parent = called_number(parent);
  described.time_ns = 0;
  described.sequence = 0;
  described.warps = 0;
  described.root = -1;
  const std::uint64_t number = find_or_add(described);
  if (number == 0) {
    return nullptr;
  }
  Record* operation = log_.at(number);
  counter(operation->sequence).fetch_add(1, std::memory_order_relaxed);
  Running* running = &running_[next_.fetch_add(1, std::memory_order_relaxed) % kRunning];
  running->times = nullptr;
  if (operation->time_ns != 0) {
    running->times = reinterpret_cast<KernelTimes*>(log_.at(operation->time_ns));
    running->times->elements.fetch_add(elements, std::memory_order_relaxed);
  }
  running->channels = has_kernels ? call.channels : 0;
  running->begin_ns.store(kNone, std::memory_order_relaxed);
  running->end_ns.store(0, std::memory_order_relaxed);
  running->ended.store(0, std::memory_order_relaxed);
  call.parent = number;
  running->call = list(call);
  return running;
}

Record* CallProfile::list(const Record& call) {
  const std::uint64_t capacity = log_.capacity();
  const std::uint64_t room = capacity > kReserved ? capacity - kReserved : capacity / 2;
  if (listed_.load(std::memory_order_relaxed) >= room ||
      listed_.fetch_add(1, std::memory_order_relaxed) >= room) {
    return nullptr;
  }
  const std::uint64_t number = log_.append(call);
  return number != 0 ? log_.at(number) : nullptr;
}

CallProfile::Running* CallProfile::running_of(const void* handle) const {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(running_);
  const std::uint64_t index = offset / sizeof(Running);
  return index < kRunning ? &running_[index] : nullptr;
}

bool CallProfile::is_own(const void* handle) const {
  return running_of(handle) != nullptr || called_number(handle) != 0;
}

void* CallProfile::begin_kernel(void* parent, std::uint64_t device_ns) {
  Running* running = running_of(parent);
  if (running == nullptr || device_ns == 0) {
    return nullptr;
  }
  lower(running->begin_ns, device_ns);
  if (running->call != nullptr) {
    counter(running->call->device_ns)
        .store(running->begin_ns.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  return reinterpret_cast<unsigned char*>(running) + kKernelMark;
}

void CallProfile::end_kernel(void* handle, std::uint64_t device_ns) {
  Running* running = running_of(handle);
  if (running == nullptr || reinterpret_cast<std::uintptr_t>(handle) % sizeof(Running) == 0) {
    return;
  }
  raise(running->end_ns, device_ns);
  if (running->ended.fetch_add(1, std::memory_order_acq_rel) + 1 != running->channels) {
    return;
  }
  const std::uint64_t begin_ns = running->begin_ns.load(std::memory_order_relaxed);
  const std::uint64_t end_ns = running->end_ns.load(std::memory_order_relaxed);
  // NCCL keeps the times of 64 kernels of a channel: where it reports them too late, the begin of
  // a later kernel may be behind the end.
  if (end_ns < begin_ns || end_ns - begin_ns > kMostKernelNs) {
    return;
  }
  if (running->call != nullptr) {
    counter(running->call->count).store(end_ns, std::memory_order_relaxed);
  }
  if (KernelTimes* times = running->times; times != nullptr) {
    const std::uint64_t taken_ns = end_ns - begin_ns;
    times->calls.fetch_add(1, std::memory_order_relaxed);
    times->total_ns.fetch_add(taken_ns, std::memory_order_relaxed);
    lower(times->least_ns, taken_ns);
    raise(times->most_ns, taken_ns);
  }
}

HandlePairs::HandlePairs()
    : capacity_(wanted_capacity() != 0 ? wanted_capacity() : kUsualPairs),
      pairs_(reserve_array<Pair>(capacity_)) {}

std::uint64_t HandlePairs::wanted_capacity() {
  return number_of_environment("CCLMARK_PLUGIN_PAIRS", kUsualPairs, kMostPairs);
}

bool HandlePairs::has_invalid_capacity() {
  return wanted_capacity() == 0;
}

const HandlePairs::Pair* HandlePairs::find(const void* handle) const {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(pairs_);
  const std::uint64_t index = offset / sizeof(Pair);
  return pairs_ != nullptr && index < capacity_ ? &pairs_[index] : nullptr;
}

void* HandlePairs::make(void* own, void* others) {
  if (others == nullptr) {
    return own != nullptr ? own : &unrecorded_;
  }
  if (own == nullptr) {
    return others;
  }
  const bool has_place = pairs_ != nullptr && next_.load(std::memory_order_relaxed) < capacity_;
  const std::uint64_t index = has_place ? next_.fetch_add(1, std::memory_order_relaxed) : capacity_;
  if (index >= capacity_) {
    EventLog::instance()->header().has_lost_parents.store(1, std::memory_order_relaxed);
    return others;
  }
  pairs_[index] = {own, others};
  return &pairs_[index];
}

void* HandlePairs::own(void* handle) const {
  if (const Pair* pair = find(handle)) {
    return pair->own;
  }
  const CallProfile* profile = CallProfile::instance();
  return profile != nullptr && profile->is_own(handle) ? handle : nullptr;
}

void* HandlePairs::others(void* handle) const {
  if (const Pair* pair = find(handle)) {
    return pair->others;
  }
  return handle == &unrecorded_ || own(handle) != nullptr ? nullptr : handle;
}

}  // namespace cclmark::plugin
