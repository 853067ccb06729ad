#include "plugin/event_log.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
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

constexpr char kVariable[] = "CCLMARK_PLUGIN_LOG";
constexpr char kRunVariable[] = "CCLMARK_PLUGIN_RUN";
constexpr char kMagic[8] = {'C', 'C', 'L', 'M', 'L', 'O', 'G', '1'};
constexpr std::uint64_t kUsualCapacity = 1 << 20;
constexpr std::uint64_t kMostCapacity = 1 << 28;
constexpr std::uint64_t kNanosecondsPerRetry = 1'000'000'000;
constexpr int kMostOfOneName = 10'000;  // logs of processes with the same host name and PID
constexpr int kMostInterruptions = 16;  // by signals

char failure_text[PATH_MAX + 128] = "";
std::atomic<bool> has_profiler = false;

std::uint64_t nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

std::uint64_t wanted_capacity() {
  return number_of_environment("CCLMARK_PLUGIN_RECORDS", kUsualCapacity, kMostCapacity);
}

bool is_set(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0';
}

void fail(const char* what, const char* path) {
  std::snprintf(failure_text, sizeof failure_text, "%s %s: %s", what, path, std::strerror(errno));
}

/// Adds `bytes` with disk blocks to a file, from `begin` on. Returns 0 or an error number. Where
/// the file would exceed the limit of the process, the system call would also raise SIGXFSZ.
int grow(int descriptor, std::uint64_t begin, std::uint64_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      begin + bytes > limit.rlim_cur) {
    return EFBIG;
  }
  int error = EINTR;
  for (int attempt = 0; error == EINTR && attempt < kMostInterruptions; ++attempt) {
    error = posix_fallocate(descriptor, static_cast<off_t>(begin), static_cast<off_t>(bytes));
  }
  return error;
}

/// Creates the file of a log and writes its path. A file that exists already belongs to another
/// process: of another PID namespace, or an earlier one with the same PID. Returns the descriptor,
/// -1 with errno if there is none.
int create(const char* prefix, const char* host, char (&path)[PATH_MAX]) {
  for (int number = 1; number <= kMostOfOneName; ++number) {
    char suffix[16] = "";
    if (number > 1) {
      std::snprintf(suffix, sizeof suffix, "-%d", number);
    }
    const int length = std::snprintf(path, sizeof path, "%s-%s-%ld%s.cclmlog", prefix, host,
                                     static_cast<long>(getpid()), suffix);
    if (length < 0 || static_cast<std::size_t>(length) >= sizeof path) {
      errno = ENAMETOOLONG;
      return -1;
    }
    const int descriptor = ::open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor >= 0 || errno != EEXIST) {
      return descriptor;
    }
  }
  return -1;
}

}  // namespace

bool is_wanted(const char* events) {
  const char* text = std::getenv(kEventsVariable);
  return text != nullptr && std::strcmp(text, events) == 0;
}

bool is_profile() {
  static const bool is_counted = is_wanted("counts") || is_wanted("profile");
  return is_counted;
}

std::uint64_t number_of_environment(const char* variable, std::uint64_t usual, std::uint64_t most) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') {
    return usual;
  }
  char* end = nullptr;
  errno = 0;
  const unsigned long long number = std::strtoull(text, &end, 10);
  const bool is_valid = errno == 0 && *end == '\0' && *text != '-';
  return is_valid ? std::min<std::uint64_t>(number, most) : 0;
}

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
  static const bool is_requested = is_set(kVariable);
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
  const char* prefix = is_set(kVariable) ? std::getenv(kVariable) : "cclmark";
  char path[PATH_MAX] = "the log in memory";
  int given = -1;
  const bool is_given = std::sscanf(prefix, "fd:%d", &given) == 1;
  const int descriptor = is_given ? fcntl(given, F_DUPFD_CLOEXEC, 0) : create(prefix, host, path);
  if (descriptor < 0) {
    fail("cannot create", is_given ? prefix : path);
    return nullptr;
  }
  const std::uint64_t capacity = has_invalid_capacity() ? kUsualCapacity : wanted_capacity();
  // Most of the mapping is behind the end of the file, which grows before a record is written.
  const std::size_t bytes = kHeaderBytes + capacity * sizeof(Record);
  void* mapped = MAP_FAILED;
  errno = grow(descriptor, 0, kHeaderBytes);
  if (errno == 0) {
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
  copy_text(header->run, sizeof header->run - 1, std::getenv(kRunVariable));
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
  if (is_waiting_for_space() &&
      header_->claimed.load(std::memory_order_relaxed) < capacity_) {  // otherwise the log is full
    lose();
    return 0;
  }
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

void EventLog::lose() {
  header_->unplaced.fetch_add(1, std::memory_order_relaxed);
  header_->dropped.fetch_add(1, std::memory_order_relaxed);
}

bool EventLog::is_waiting_for_space() const {
  const std::uint64_t retry_at_ns = retry_at_ns_.load(std::memory_order_relaxed);
  return retry_at_ns != 0 && now_ns() < retry_at_ns;
}

bool EventLog::allocate(std::uint64_t index) {
  if (index < allocated_.load(std::memory_order_acquire)) {
    return true;
  }
  const std::lock_guard lock(allocation_);
  std::uint64_t allocated = allocated_.load(std::memory_order_relaxed);
  while (index >= allocated) {
    if (is_waiting_for_space()) {
      return false;  // another thread has failed since this one claimed its place
    }
    const std::uint64_t more = std::min(piece_, capacity_ - allocated);
    const int error =
        grow(descriptor_, kHeaderBytes + allocated * sizeof(Record), more * sizeof(Record));
    if (error == 0) {
      allocated += more;
      allocated_.store(allocated, std::memory_order_release);
      retry_at_ns_.store(0, std::memory_order_relaxed);
      piece_ = std::min(2 * piece_, kMostAtOnce);
    } else if (piece_ > kLeastAtOnce) {
      piece_ /= 2;
    } else {
      header_->growth_error.store(error, std::memory_order_relaxed);
      retry_at_ns_.store(now_ns() + kNanosecondsPerRetry, std::memory_order_relaxed);
      return false;
    }
  }
  return true;
}

}  // namespace cclmark::plugin
