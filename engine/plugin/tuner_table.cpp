#include "plugin/tuner_table.hpp"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>

namespace cclmark::plugin {

namespace {

constexpr char kFormat[] = "cclmark-tuner-table";
constexpr std::size_t kMostLineBytes = 256;
constexpr std::size_t kMostRules = 4096;
constexpr int kMostShown = 40;  // characters of a word in a message
constexpr std::uint64_t kMostRanks = 2147483647;
constexpr std::uint64_t kMostBytes = 9223372036854775807;
constexpr std::uint64_t kMostLinks = 1024;
constexpr std::uint64_t kMostChannels = 256;
constexpr std::size_t kRuleColumns = 8;
constexpr char kFirstLine[] = "the first line must be 'cclmark-tuner-table 1'";

// By NCCL's numbers.
constexpr std::array<std::string_view, 5> kFunctionNames = {"broadcast", "reduce", "all_gather",
                                                            "reduce_scatter", "all_reduce"};
constexpr std::array<std::string_view, 7> kAlgorithmNames = {
    "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
constexpr std::array<std::string_view, 3> kProtocolNames = {"ll", "ll128", "simple"};
constexpr int kTree = 0, kRing = 1, kCollnetDirect = 2, kCollnetChain = 3, kNvls = 4, kNvlsTree = 5,
              kPat = 6;
constexpr int kSimple = 2;
constexpr int kBroadcast = 0, kReduce = 1, kAllReduce = 4;

enum Condition : unsigned { kLibrary = 1, kDevice = 2, kLinks = 4 };

template <std::size_t size>
int number_of(const std::array<std::string_view, size>& names, std::string_view name) {
  for (std::size_t number = 0; number < size; ++number) {
    if (names[number] == name) {
      return static_cast<int>(number);
    }
  }
  return -1;
}

/// Reads a decimal number without sign and leading zeros.
bool read_number(std::string_view word, std::uint64_t least, std::uint64_t most,
                 std::uint64_t& number) {
  if (word.empty() || word.size() > 19 || (word.size() > 1 && word[0] == '0')) {
    return false;
  }
  number = 0;
  for (const char digit : word) {
    if (digit < '0' || digit > '9') {
      return false;
    }
    number = number * 10 + static_cast<std::uint64_t>(digit - '0');
  }
  return number >= least && number <= most;
}

/// As the library counts: 2.28.9 is 22809.
bool read_version(std::string_view word, int& version) {
  std::uint64_t parts[3] = {};
  for (std::size_t part = 0; part < 3; ++part) {
    const std::size_t end = part < 2 ? word.find('.') : word.size();
    if (end == std::string_view::npos || !read_number(word.substr(0, end), 0, 99, parts[part])) {
      return false;
    }
    word.remove_prefix(part < 2 ? end + 1 : end);
  }
  version = static_cast<int>(parts[0] * 10000 + parts[1] * 100 + parts[2]);
  return true;
}

bool has_algorithm(int function, int algorithm) {
  switch (function) {
    case kBroadcast:
    case kReduce:
      return algorithm == kRing;
    case kAllReduce:
      return algorithm != kPat;
    default:
      return algorithm == kRing || algorithm == kCollnetDirect || algorithm == kNvls ||
             algorithm == kPat;
  }
}

bool has_protocol(int algorithm, int protocol) {
  return algorithm == kTree || algorithm == kRing || protocol == kSimple;
}

class Parser {
 public:
  Parser(TunerTable& table, char* problem, std::size_t problem_bytes)
      : table_(table), problem_(problem), problem_bytes_(problem_bytes) {}

  bool parse(std::string_view text) {
    table_ = {};
    table_.rules.reset(new (std::nothrow) Rule[kMostRules]);
    if (table_.rules == nullptr) {
      std::snprintf(problem_, problem_bytes_, "no memory is left");
      return false;
    }
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      ++line_;
      if (!read_line(text.substr(0, end))) {
        return false;
      }
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    if (line_ == 0) {
      line_ = 1;
      return fail("", kFirstLine);
    }
    return has_ended_ || fail("", "the file ends without a line 'end': it is incomplete");
  }

 private:
  /// Writes the problem of `field`, empty: of the line.
  __attribute__((format(printf, 3, 4))) bool fail(const char* field, const char* format, ...) {
    const int begin = std::snprintf(problem_, problem_bytes_, "line %d%s%s: ", line_,
                                    *field != '\0' ? ", " : "", field);
    if (begin >= 0 && static_cast<std::size_t>(begin) < problem_bytes_) {
      va_list values;
      va_start(values, format);
      std::vsnprintf(problem_ + begin, problem_bytes_ - static_cast<std::size_t>(begin), format,
                     values);
      va_end(values);
    }
    return false;
  }

  /// Fails with a word of the table.
  bool refuse(const char* field, std::string_view word, const char* reason) {
    const int shown = word.size() < kMostShown ? static_cast<int>(word.size()) : kMostShown;
    return fail(field, "'%.*s' %s", shown, word.data(), reason);
  }

  bool read_line(std::string_view line) {
    if (line.size() > kMostLineBytes) {
      return fail("", "it is longer than %zu characters", kMostLineBytes);
    }
    for (std::size_t place = 0; place < line.size(); ++place) {
      if (line[place] != '\t' && (line[place] < ' ' || line[place] > '~')) {
        return fail("", "character %zu is not printable ASCII", place + 1);
      }
    }
    split(line);
    if (line_ == 1) {
      return read_first_line();
    }
    if (count_ == 0 || words_[0][0] == '#') {
      return true;
    }
    if (has_ended_) {
      return fail("", "there is text after the line 'end'");
    }
    if (words_[0] == "library") {
      return begin_condition(kLibrary, "library") && read_library();
    }
    if (words_[0] == "device") {
      return begin_condition(kDevice, "device") && read_device();
    }
    if (words_[0] == "nvlinks") {
      return begin_condition(kLinks, "nvlinks") && read_links();
    }
    if (words_[0] == "end") {
      return read_end();
    }
    return read_rule();
  }

  void split(std::string_view line) {
    constexpr char kBlanks[] = " \t";
    count_ = 0;
    std::size_t begin = line.find_first_not_of(kBlanks);
    while (begin != std::string_view::npos) {
      std::size_t end = line.find_first_of(kBlanks, begin);
      end = end == std::string_view::npos ? line.size() : end;
      words_[count_++] = line.substr(begin, end - begin);
      begin = line.find_first_not_of(kBlanks, end);
    }
  }

  bool read_first_line() {
    if (count_ != 2 || words_[0] != kFormat) {
      return fail("", kFirstLine);
    }
    return words_[1] == "1" || refuse("version", words_[1], "is not supported, only 1");
  }

  bool begin_condition(Condition condition, const char* name) {
    if (table_.rule_count != 0) {
      return fail("", "'%s' must be before the rules", name);
    }
    if ((found_ & condition) != 0) {
      return fail("", "there is a second line '%s'", name);
    }
    found_ |= condition;
    return true;
  }

  bool read_library() {
    if (count_ != 3) {
      return fail("library", "a name and a version are required");
    }
    if (words_[1] != "nccl" && words_[1] != "rccl") {
      return refuse("library", words_[1], "is not nccl or rccl");
    }
    std::memcpy(table_.library, words_[1].data(), words_[1].size());
    return read_version(words_[2], table_.library_version) ||
           refuse("version", words_[2], "is not a version, for example 2.28.9");
  }

  bool read_device() {
    if (count_ == 1) {
      return fail("device", "a name is required");
    }
    char* place = table_.device;  // shorter than the line, which fits
    for (std::size_t word = 1; word < count_; ++word) {
      if (word > 1) {
        *place++ = ' ';
      }
      std::memcpy(place, words_[word].data(), words_[word].size());
      place += words_[word].size();
    }
    return true;
  }

  bool read_links() {
    if (count_ != 2) {
      return fail("nvlinks", "a number, or any, is required");
    }
    std::uint64_t links = 0;
    if (words_[1] == "any") {
      table_.nvlinks = -1;
      return true;
    }
    if (!read_number(words_[1], 0, kMostLinks, links)) {
      return refuse("nvlinks", words_[1], "is not a number from 0 to 1024, or any");
    }
    table_.nvlinks = static_cast<int>(links);
    return true;
  }

  bool has_conditions() {
    if ((found_ & kLibrary) == 0) {
      return fail("", "the line 'library' is missing before the rules");
    }
    if ((found_ & kDevice) == 0) {
      return fail("", "the line 'device' is missing before the rules");
    }
    return (found_ & kLinks) != 0 || fail("", "the line 'nvlinks' is missing before the rules");
  }

  bool read_end() {
    if (count_ != 1) {
      return fail("", "'end' must be alone");
    }
    if (!has_conditions()) {
      return false;
    }
    has_ended_ = true;
    return table_.rule_count != 0 || fail("", "there is no rule before 'end'");
  }

  bool read_rule() {
    Rule rule{};
    rule.line = line_;
    rule.function = number_of(kFunctionNames, words_[0]);
    if (rule.function < 0) {
      return refuse("operation", words_[0],
                    "is not all_gather, all_reduce, broadcast, reduce or reduce_scatter");
    }
    if (count_ != kRuleColumns) {
      return fail("", "a rule has 8 columns, this line has %zu", count_);
    }
    if (!has_conditions() || !read_sizes(rule) || !read_choice(rule)) {
      return false;
    }
    for (std::size_t number = 0; number < table_.rule_count; ++number) {
      const Rule& other = table_.rules[number];
      if (other.function == rule.function && other.ranks == rule.ranks &&
          other.nodes == rule.nodes && other.smallest_bytes <= rule.largest_bytes &&
          rule.smallest_bytes <= other.largest_bytes) {
        return fail("", "its sizes overlap with those of line %d", other.line);
      }
    }
    if (table_.rule_count == kMostRules) {
      return fail("", "there are more than %zu rules", kMostRules);
    }
    table_.rules[table_.rule_count++] = rule;
    return true;
  }

  bool read_sizes(Rule& rule) {
    if (!read_number(words_[1], 2, kMostRanks, rule.ranks)) {
      return refuse("ranks", words_[1], "is not a number from 2 to 2147483647");
    }
    if (!read_number(words_[2], 1, kMostRanks, rule.nodes)) {
      return refuse("nodes", words_[2], "is not a number from 1 to 2147483647");
    }
    if (rule.nodes > rule.ranks) {
      return fail("nodes", "there are more nodes than ranks");
    }
    if (!read_number(words_[3], 0, kMostBytes, rule.smallest_bytes)) {
      return refuse("smallest_bytes", words_[3], "is not a number from 0 to 9223372036854775807");
    }
    if (!read_number(words_[4], 0, kMostBytes, rule.largest_bytes)) {
      return refuse("largest_bytes", words_[4], "is not a number from 0 to 9223372036854775807");
    }
    return rule.smallest_bytes <= rule.largest_bytes ||
           fail("largest_bytes", "it is less than smallest_bytes");
  }

  bool read_choice(Rule& rule) {
    rule.algorithm = number_of(kAlgorithmNames, words_[5]);
    if (rule.algorithm < 0) {
      return refuse("algorithm", words_[5],
                    "is not tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree or pat");
    }
    rule.protocol = number_of(kProtocolNames, words_[6]);
    if (rule.protocol < 0) {
      return refuse("protocol", words_[6], "is not ll, ll128 or simple");
    }
    if (!has_algorithm(rule.function, rule.algorithm)) {
      return fail("algorithm", "%s has no algorithm %s", function_name(rule.function),
                  algorithm_name(rule.algorithm));
    }
    if (!has_protocol(rule.algorithm, rule.protocol)) {
      return fail("protocol", "%s has no protocol %s", algorithm_name(rule.algorithm),
                  protocol_name(rule.protocol));
    }
    std::uint64_t channels = 0;
    if (!read_number(words_[7], 0, kMostChannels, channels)) {
      return refuse("channels", words_[7], "is not a number from 0 to 256");
    }
    rule.channels = static_cast<int>(channels);
    return true;
  }

  TunerTable& table_;
  char* const problem_;
  const std::size_t problem_bytes_;
  int line_ = 0;
  unsigned found_ = 0;
  bool has_ended_ = false;
  std::size_t count_ = 0;
  std::array<std::string_view, kMostLineBytes / 2 + 1> words_;
};

}  // namespace

bool parse_table(const char* text, std::size_t bytes, TunerTable& table, char* problem,
                 std::size_t problem_bytes) {
  return Parser(table, problem, problem_bytes).parse({text, bytes});
}

const char* algorithm_name(int algorithm) {
  return kAlgorithmNames[static_cast<std::size_t>(algorithm)].data();
}

const char* protocol_name(int protocol) {
  return kProtocolNames[static_cast<std::size_t>(protocol)].data();
}

const char* function_name(int function) {
  return kFunctionNames[static_cast<std::size_t>(function)].data();
}

bool is_nvls(int algorithm) {
  return algorithm == kNvls || algorithm == kNvlsTree;
}

bool is_collnet(int algorithm) {
  return algorithm == kCollnetDirect || algorithm == kCollnetChain;
}

}  // namespace cclmark::plugin
