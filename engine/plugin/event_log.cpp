#include "plugin/event_log.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>

namespace cclmark::plugin {

namespace {

constexpr char kMagic[8] = {'C', 'C', 'L', 'M', 'L', 'O', 'G', '1'};
constexpr std::uint64_t kUsualCapacity = 1 << 20;
constexpr std::uint64_t kMostCapacity = 1 << 28;
constexpr std::uint64_t kAllocatedAtOnce = 1 << 13;  // records

char failure_text[PATH_MAX + 128] = "";
std::atomic<bool> has_profiler = false;

std::uint64_t nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// CCLMARK_PLUGIN_RECORDS: the usual number if it is not set, 0 if it is invalid.
std::uint64_t wanted_capacity() {
  const char* text = std::getenv("CCLMARK_PLUGIN_RECORDS");
  if (text == nullptr || *text == '\0') {
    return kUsualCapacity;
  }
  char* end = nullptr;
  errno = 0;
  const unsigned long long number = std::strtoull(text, &end, 10);
  const bool is_valid = errno == 0 && *end == '\0' && *text != '-';
  return is_valid ? std::min<std::uint64_t>(number, kMostCapacity) : 0;
}

bool is_set(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0';
}

void fail(const char* what, const char* path) {
  std::snprintf(failure_text, sizeof failure_text, "%s %s: %s", what, path, std::strerror(errno));
}

}  // namespace

std::uint64_t now_ns() {
  return nanoseconds(CLOCK_MONOTONIC);
}

void copy_text(char* field, std::size_t bytes, const char* text) {
  std::memset(field, 0, bytes);
  if (text != nullptr) {
    std::memcpy(field, text, strnlen(text, bytes));
  }
}

EventLog::EventLog(LogHeader* header, int descriptor, std::uint64_t capacity)
    : header_(header),
      records_(reinterpret_cast<unsigned char*>(header) + kHeaderBytes),
      descriptor_(descriptor),
      capacity_(capacity) {}

EventLog* EventLog::instance() {
  static EventLog* const log = open();  // never closed: threads of NCCL may outlive main
  return log;
}

EventLog* EventLog::if_recording() {
  static const bool is_requested = is_set("CCLMARK_PLUGIN_LOG");
  return is_requested || has_profiler.load(std::memory_order_relaxed) ? instance() : nullptr;
}

void EventLog::begin_recording() {
  has_profiler.store(true, std::memory_order_relaxed);
}

const char* EventLog::failure() {
  return failure_text;
}

bool EventLog::has_invalid_capacity() {
  return wanted_capacity() == 0;
}

EventLog* EventLog::open() {
  char host[64] = "";
  gethostname(host, sizeof host - 1);
  const char* prefix = std::getenv("CCLMARK_PLUGIN_LOG");
  char path[PATH_MAX];
  const int length = std::snprintf(path, sizeof path, "%s-%s-%ld.cclmlog",
                                   prefix != nullptr && *prefix != '\0' ? prefix : "cclmark", host,
                                   static_cast<long>(getpid()));
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof path) {
    errno = ENAMETOOLONG;
    fail("cannot create", "the log named by CCLMARK_PLUGIN_LOG");
    return nullptr;
  }
  int given = -1;
  const bool is_given = prefix != nullptr && std::sscanf(prefix, "fd:%d", &given) == 1;
  const int descriptor =
      is_given ? fcntl(given, F_DUPFD_CLOEXEC, 0)
               : ::open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) {
    fail("cannot create", is_given ? prefix : path);
    return nullptr;
  }
  const std::uint64_t capacity = has_invalid_capacity() ? kUsualCapacity : wanted_capacity();
  const std::size_t bytes = kHeaderBytes + capacity * sizeof(Record);
  void* mapped = MAP_FAILED;
  errno = posix_fallocate(descriptor, 0, kHeaderBytes);
  if (errno == 0 && ftruncate(descriptor, static_cast<off_t>(bytes)) == 0) {
    mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  if (mapped == MAP_FAILED) {
    fail("cannot write", path);
    ::close(descriptor);
    if (!is_given) {
      ::unlink(path);
    }
    return nullptr;
  }
  auto* header = static_cast<LogHeader*>(mapped);
  header->record_bytes = sizeof(Record);
  header->capacity = capacity;
  header->pid = getpid();
  header->begin_monotonic_ns = now_ns();
  header->begin_realtime_ns = nanoseconds(CLOCK_REALTIME);
  copy_text(header->host, sizeof header->host, host);
  std::memcpy(header->magic, kMagic, sizeof kMagic);
  return new (std::nothrow) EventLog(header, descriptor, capacity);
}

std::uint64_t EventLog::append(const Record& record) {
  return append_bytes(&record, record.kind);
}

std::uint64_t EventLog::append(const CostRecord& record) {
  return append_bytes(&record, record.kind);
}

std::uint64_t EventLog::append_bytes(const void* content, std::uint32_t kind) {
  const std::uint64_t index = header_->claimed.fetch_add(1, std::memory_order_relaxed);
  if (index >= capacity_ || !allocate(index)) {
    header_->dropped.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  unsigned char* place = records_ + index * sizeof(Record);
  constexpr std::size_t kKindBytes = sizeof(std::uint32_t);
  std::memcpy(place + kKindBytes, static_cast<const unsigned char*>(content) + kKindBytes,
              sizeof(Record) - kKindBytes);
  // Last, so that a reader never mistakes a partly written record for a complete one.
  std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(place))
      .store(kind, std::memory_order_release);
  return index + 1;
}

bool EventLog::allocate(std::uint64_t index) {
  if (index < allocated_.load(std::memory_order_acquire)) {
    return true;
  }
  const std::lock_guard lock(allocation_);
  std::uint64_t allocated = allocated_.load(std::memory_order_relaxed);
  while (index >= allocated) {
    const std::uint64_t more = std::min(kAllocatedAtOnce, capacity_ - allocated);
    const auto begin = static_cast<off_t>(kHeaderBytes + allocated * sizeof(Record));
    if (posix_fallocate(descriptor_, begin, static_cast<off_t>(more * sizeof(Record))) != 0) {
      return false;
    }
    allocated += more;
    allocated_.store(allocated, std::memory_order_release);
  }
  return true;
}

}  // namespace cclmark::plugin
