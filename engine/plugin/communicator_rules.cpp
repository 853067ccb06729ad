#include "plugin/communicator_rules.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "plugin/event_log.hpp"
#include "plugin/surroundings.hpp"

namespace cclmark::plugin {

namespace {

constexpr char kPathVariable[] = "CCLMARK_TUNER_TABLE";
constexpr char kAnywhereVariable[] = "CCLMARK_TUNER_ANYWHERE";
constexpr char kNvlsVariable[] = "NCCL_NVLS_ENABLE";
constexpr char kRefuses[] = "refuses the tuner table";
constexpr std::size_t kTextBytes = PATH_MAX + 1024;
constexpr std::size_t kDifferenceBytes = 512;

// Results of NCCL.
constexpr int kSuccess = 0, kSystemError = 2, kInvalidUsage = 5;

const char* setting(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr ? text : "";
}

/// Whether NVLS is switched off. NCCL reads numbers as strtoll does.
bool is_nvls_off() {
  const char* text = setting(kNvlsVariable);
  char* end = nullptr;
  const long long number = std::strtoll(text, &end, 0);
  return end != text && number == 0;
}

/// Writes the state of the table to the log's header.
void write_state(bool is_applied, const char* path, const char* reason) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (EventLog* events = EventLog::if_recording()) {
    TableState& state = events->header().table;
    state.is_applied = is_applied ? 1 : 0;
    copy_text(state.path, sizeof state.path - 1, path);
    copy_text(state.reason, sizeof state.reason - 1, reason);
  }
}

/// Warns of a table that does not apply, unless the last warning was the same: a process may create
/// many communicators. The first warning is visible without NCCL_DEBUG: the user deployed the table
/// and would otherwise measure the library's defaults as its effect.
void warn_once(Logger log, const char* text) {
  static std::mutex mutex;
  static char last[kTextBytes] = "";
  static std::atomic_flag is_printed;
  const std::lock_guard lock(mutex);
  if (std::strcmp(last, text) != 0) {
    copy_text(last, sizeof last - 1, text);
    warn_visibly(log, is_printed, "does not apply the tuner table", text);
  }
}

/// The content of a file, with a limited size.
struct Content {
  std::unique_ptr<char[]> text;
  std::size_t bytes;
};

/// Reads from a descriptor until the end. Returns why it failed, nullptr if it did not.
const char* read_all(int descriptor, Content& content) {
  struct stat status{};
  if (fstat(descriptor, &status) != 0) {
    return std::strerror(errno);
  }
  if (!S_ISREG(status.st_mode)) {
    return "it is not a regular file";
  }
  content.text.reset(new (std::nothrow) char[kMostTableBytes + 1]);
  if (content.text == nullptr) {
    return "no memory is left";
  }
  while (content.bytes <= kMostTableBytes) {
    const ssize_t got =
        read(descriptor, content.text.get() + content.bytes, kMostTableBytes + 1 - content.bytes);
    if (got == 0) {
      return nullptr;
    }
    if (got < 0 && errno != EINTR) {
      return std::strerror(errno);
    }
    content.bytes += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  return "it is larger than 1048576 bytes";
}

/// As read_all, of a path. Neither a FIFO nor a terminal blocks.
const char* read_file(const char* path, Content& content) {
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) {
    return std::strerror(errno);
  }
  const char* failure = read_all(descriptor, content);
  close(descriptor);
  return failure;
}

/// Fails with a reason, which is logged and written to the log's header.
int refuse(Logger log, const char* path, const char* text) {
  warn(log, kRefuses, text);
  write_state(false, path, text);
  return kInvalidUsage;
}

/// As refuse, with what was wrong behind the path.
int refuse_file(Logger log, const char* path, const char* problem) {
  char text[kTextBytes];
  std::snprintf(text, sizeof text, "%s: %s", path, problem);
  return refuse(log, path, text);
}

/// Whether the number of the device's NVLinks is known and is the only difference. Links fail one
/// by one, so other ranks may have all NVLinks.
bool has_other_links(const TunerTable& table, const Surroundings& found) {
  if (table.nvlinks < 0 || found.nvlinks < 0 || table.nvlinks == found.nvlinks) {
    return false;
  }
  Surroundings repaired = found;
  repaired.nvlinks = table.nvlinks;
  char others[kDifferenceBytes];
  describe_differences(table, repaired, others, sizeof others);
  return *others == '\0';
}

/// The first rule that NCCL_NVLS_ENABLE=0 excludes; nullptr if there is none.
const Rule* excluded_rule(const TunerTable& table) {
  for (std::size_t number = 0; is_nvls_off() && number < table.rule_count; ++number) {
    if (is_nvls(table.rules[number].algorithm)) {
      return &table.rules[number];
    }
  }
  return nullptr;
}

}  // namespace

int CommunicatorRules::load(const void* caller, std::size_t ranks, std::size_t nodes, Logger log) {
  log_ = log;
  const char* path = setting(kPathVariable);
  if (*path == '\0') {
    return kSuccess;
  }
  if (*path != '/') {
    char text[kTextBytes];
    std::snprintf(text, sizeof text,
                  "%s=%s is a relative path, which depends on each process's directory: set the "
                  "absolute path",
                  kPathVariable, path);
    return refuse(log, path, text);
  }
  const char* anywhere = setting(kAnywhereVariable);
  if (*anywhere != '\0' && std::strcmp(anywhere, "0") != 0 && std::strcmp(anywhere, "1") != 0) {
    return refuse(log, path, "CCLMARK_TUNER_ANYWHERE must be 0 or 1");
  }
  Content content{};
  if (const char* failure = read_file(path, content)) {
    return refuse_file(log, path, failure);
  }
  TunerTable table{};
  char problem[512];
  if (!parse_table(content.text.get(), content.bytes, table, problem, sizeof problem)) {
    return refuse_file(log, path, problem);
  }
  if (const Rule* rule = excluded_rule(table)) {
    std::snprintf(problem, sizeof problem,
                  "line %d, algorithm: %s is not possible with NCCL_NVLS_ENABLE=0", rule->line,
                  algorithm_name(rule->algorithm));
    return refuse_file(log, path, problem);
  }
  return choose(table, path, caller, ranks, nodes);
}

/// Keeps the rules for this communicator if the conditions are met.
int CommunicatorRules::choose(const TunerTable& table, const char* path, const void* caller,
                              std::size_t ranks, std::size_t nodes) {
  const Surroundings found = surroundings_for(table, caller);
  char differences[kDifferenceBytes];
  describe_differences(table, found, differences, sizeof differences);
  char text[kTextBytes];
  for (std::size_t number = 0; number < table.rule_count; ++number) {
    count_ += table.rules[number].ranks == ranks && table.rules[number].nodes == nodes ? 1 : 0;
  }
  const bool is_forced = std::strcmp(setting(kAnywhereVariable), "1") == 0;
  if (count_ > 0 && !is_forced && has_other_links(table, found)) {
    count_ = 0;
    std::snprintf(text, sizeof text,
                  "%s: %s, although it is the table's device: ranks with all links would decide "
                  "otherwise, and all would hang. Repair the links, or unset %s",
                  path, differences, kPathVariable);
    return refuse(log_, path, text);
  }
  if (*differences != '\0' && !is_forced) {
    count_ = 0;
    std::snprintf(text, sizeof text, "%s: %s (%s=1 applies it nevertheless)", path, differences,
                  kAnywhereVariable);
    warn_once(log_, text);
    write_state(false, path, differences);
    return kSuccess;
  }
  write_state(true, path, differences);
  if (count_ == 0) {
    std::snprintf(text, sizeof text, "%s has none with ranks %zu and nodes %zu", path, ranks,
                  nodes);
    inform(log_, "applies no rule to this communicator", text);
    return kSuccess;
  }
  rules_.reset(new (std::nothrow) Rule[count_]);
  is_reported_.reset(new (std::nothrow) std::atomic<bool>[count_]());
  if (rules_ == nullptr || is_reported_ == nullptr) {
    warn(log_, kRefuses, "no memory is left");
    return kSystemError;
  }
  std::size_t kept = 0;
  for (std::size_t number = 0; number < table.rule_count; ++number) {
    if (table.rules[number].ranks == ranks && table.rules[number].nodes == nodes) {
      rules_[kept++] = table.rules[number];
    }
  }
  std::snprintf(text, sizeof text, "%zu of %s%s%s", count_, path,
                *differences != '\0' ? ", although " : "", differences);
  inform(log_, "applies rules to this communicator", text);
  return kSuccess;
}

const Rule* CommunicatorRules::match(int function, std::size_t bytes) const {
  for (std::size_t number = 0; number < count_; ++number) {
    const Rule& rule = rules_[number];
    if (rule.function == function && rule.smallest_bytes <= bytes && bytes <= rule.largest_bytes) {
      return &rule;
    }
  }
  return nullptr;
}

void CommunicatorRules::report_unavailable(const Rule& rule) {
  const auto number = static_cast<std::size_t>(&rule - rules_.get());
  if (is_reported_[number].exchange(true, std::memory_order_relaxed)) {
    return;
  }
  char text[256];
  std::snprintf(text, sizeof text,
                "%s has no %s %s for %zu ranks here: the library decides for these sizes",
                function_name(rule.function), algorithm_name(rule.algorithm),
                protocol_name(rule.protocol), static_cast<std::size_t>(rule.ranks));
  char problem[64];
  std::snprintf(problem, sizeof problem, "does not apply line %d of the tuner table", rule.line);
  warn(log_, problem, text);
}

}  // namespace cclmark::plugin
