#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace cclmark::plugin {

/// The kinds of records. A value is never used for another meaning: logs outlive versions.
enum class RecordKind : std::uint32_t {
  incomplete = 0,       // claimed, and its process was killed before it was written
  communicator = 1,     // function: the name given by its user, if any
  collective = 2,       // a collective task of a kernel: its algorithm and protocol are known
  point_to_point = 3,   // a send or receive task of a kernel
  collective_call = 4,  // a call of the library's API
  point_to_point_call = 5,
  kernel_launch = 6,
  copy_engine_collective = 7,  // algorithm: how its copies are synchronized
  kernel_channel = 8,
  proxy_operation = 9,
  proxy_step = 10,
  stop = 11,   // of the record `parent`
  state = 12,  // `sequence` is the state that the record `parent` has entered
  cost_table = 13,
  symmetric_collective = 14,  // `algorithm` and `protocol` together: the name of its kernel
  // A rule of the tuner table matched a call. sequence: its line; count: bytes; parent: the
  // predictions; root: 1 if it was applied, 0 if the combination was not available.
  tuner_rule = 15,
  // Of a profile, which counts instead of listing; see CallProfile.
  // A distinct call of the API. sequence: how often it was called, except while a graph was
  // captured; parent: how often then; device_ns: its stream.
  called = 16,
  // A distinct operation that ran. sequence: how often; parent: its called record; device_ns: its
  // kind (2, 3, 7 or 14); time_ns: the number of its kernel times. Roots and peers are in its
  // calls.
  operation = 17,
  kernel_times = 18,  // see KernelTimes
  // An operation that ran. parent: its record; time_ns: of the host, when it was enqueued;
  // device_ns and count: begin and end of its kernel by the device, 0 unless it was seen.
  call = 19,
  // The process. rank and count: of the launcher's variable `function`; root: its local rank.
  process = 20,
};

/// One event, 128 bytes. Texts end with a zero unless they fill their field.
struct Record {
  std::uint32_t kind;
  std::int32_t rank;           // -1: unknown
  std::uint64_t communicator;  // NCCL's hash of it, 0: unknown
  std::uint64_t time_ns;       // CLOCK_MONOTONIC
  std::uint64_t parent;        // number of a record, from 1; 0: none
  std::uint64_t sequence;
  std::uint64_t count;      // elements; of a communicator its ranks
  std::uint64_t device_ns;  // of the device's global timer, 0: none
  std::int32_t root;        // or the peer; of a communicator its nodes
  std::uint16_t channels;   // their number; the channel's number of a kernel or proxy channel
  std::uint16_t warps;
  char function[20];
  char algorithm[16];
  char protocol[12];
  char datatype[16];
};
static_assert(sizeof(Record) == 128);

constexpr int kAlgorithms = 7;  // tree, ring, collnet direct and chain, nvls, nvls tree, pat
constexpr int kProtocols = 3;   // ll, ll128, simple

/// What NCCL predicts for a collective of `bytes` before it decides, in microseconds.
struct CostRecord {
  std::uint32_t kind;
  std::int32_t rank;
  std::uint64_t communicator;
  std::uint64_t time_ns;
  std::uint64_t parent;
  std::uint64_t bytes;
  std::uint32_t function;
  float cost_us[kAlgorithms][kProtocols];  // negative: not available
};
static_assert(sizeof(CostRecord) == sizeof(Record));

/// Another plug-in that this one loads; see OtherPlugin. Texts end with a zero.
struct ChainedPlugin {
  std::uint32_t interface_version;  // by which it is called, 0: not called
  char name[508];                   // as it was set, or its file; empty: there is none
  char reason[512];                 // why it is not called for some or all communicators
};

/// The tuner table of this process; see CommunicatorRules. Texts end with a zero.
struct TableState {
  std::uint32_t is_applied;  // 1: its rules are applied
  char path[508];            // empty: there is no table
  char reason[512];          // why the rules are not applied, or in which respect they are foreign
};

/// The first page of a log.
///
/// `claimed` counts the events that claimed a place. It may exceed `capacity`: the difference was
/// dropped. `dropped` counts all lost events. Where the file could not grow, the place of a claimed
/// event is empty; later ones claim none until the next attempt (`unplaced`).
struct LogHeader {
  char magic[8];  // "CCLMLOG1"
  std::uint32_t record_bytes;
  std::uint32_t interface_version;  // of the profiler interface that the library uses, 0: none yet
  std::uint64_t capacity;
  std::atomic<std::uint64_t> claimed;
  std::atomic<std::uint64_t> dropped;
  std::int64_t pid;
  std::uint64_t begin_monotonic_ns;
  std::uint64_t begin_realtime_ns;
  std::uint32_t library_version;  // as ncclGetVersion returns it, 0: unknown
  char host[64];
  ChainedPlugin profiler;
  ChainedPlugin tuner;
  TableState table;
  std::atomic<std::uint64_t> unplaced;
  std::atomic<std::int32_t> growth_error;  // errno of the last failure, 0: none
  // 1: events of a profile may lack their parents, because all places of HandlePairs are in use.
  std::atomic<std::uint32_t> has_lost_parents;
  char run[40];  // of the run that the process belongs to, from CCLMARK_PLUGIN_RUN
};
constexpr std::size_t kHeaderBytes = 4096;
static_assert(sizeof(LogHeader) <= kHeaderBytes);
static_assert(offsetof(LogHeader, profiler) == 132);
static_assert(offsetof(LogHeader, table) == 2180);
static_assert(offsetof(LogHeader, unplaced) == 3208);
static_assert(offsetof(LogHeader, has_lost_parents) == 3220);
static_assert(offsetof(LogHeader, run) == 3224);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// The bounded log of this process: a file that is mapped, so that it survives the process.
///
/// Records that do not fit are counted and dropped. The file grows with its records, and disk
/// blocks are allocated before they are written, because a write to a mapped file on a full disk
/// would kill the process. If the file cannot grow, the next attempt follows a second later.
class EventLog {
 public:
  /// The log of this process, opened at the first call; nullptr if it cannot be written.
  static EventLog* instance();

  /// The same for a tuner, nullptr if nothing is recorded: a process that only applies a table
  /// leaves no log behind. Events are recorded if NCCL uses the profiler interface of this plug-in,
  /// or if CCLMARK_PLUGIN_LOG names a log.
  static EventLog* if_recording();

  /// The profiler interface is in use.
  static void begin_recording();

  /// Why there is no log, empty if there is one.
  static const char* failure();

  /// Whether CCLMARK_PLUGIN_RECORDS is invalid, so that the usual capacity applies.
  static bool has_invalid_capacity();

  /// Appends a record and returns its number, from 1; 0 if it was dropped. Thread-safe.
  std::uint64_t append(const Record& record);
  std::uint64_t append(const CostRecord& record);

  /// The record with a number that append returned.
  Record* at(std::uint64_t number) {
    return reinterpret_cast<Record*>(records_ + (number - 1) * sizeof(Record));
  }

  /// Counts an event that cannot be recorded. Without `growth_error` in the header, the reason is a
  /// profile with too many distinct operations.
  void lose();

  LogHeader& header() { return *header_; }
  std::uint64_t capacity() const { return capacity_; }

 private:
  EventLog(LogHeader* header, int descriptor, std::uint64_t capacity);
  std::uint64_t append_bytes(const void* content, std::uint32_t kind);
  bool allocate(std::uint64_t index);
  bool is_waiting_for_space() const;
  static EventLog* open();

  // Records by which the file grows: pieces of whole pages, larger ones in larger files.
  static constexpr std::uint64_t kLeastAtOnce = 1 << 5;
  static constexpr std::uint64_t kMostAtOnce = 1 << 13;

  LogHeader* header_;
  unsigned char* records_;
  int descriptor_;
  std::uint64_t capacity_;
  std::atomic<std::uint64_t> allocated_{0};    // records with disk blocks
  std::atomic<std::uint64_t> retry_at_ns_{0};  // the file could not grow; 0: it could
  std::uint64_t piece_ = kLeastAtOnce;
  std::mutex allocation_;
};

constexpr char kEventsVariable[] = "CCLMARK_PLUGIN_EVENTS";

/// Whether CCLMARK_PLUGIN_EVENTS is `events`.
bool is_wanted(const char* events);

/// Whether this process counts calls (a profile) instead of listing events.
bool is_profile();

/// A positive integer in the environment: `usual` if it is not set, 0 if it is invalid.
std::uint64_t number_of_environment(const char* variable, std::uint64_t usual, std::uint64_t most);

/// Nanoseconds of CLOCK_MONOTONIC.
std::uint64_t now_ns();

/// Copies `text`, which may be null, into a field of `bytes`.
void copy_text(char* field, std::size_t bytes, const char* text);

}  // namespace cclmark::plugin
