#include "core/size_settings.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

#include "core/error.hpp"

namespace cclmark {
namespace {

constexpr double kLargestBytes = double(size_t{1} << 50);

std::string range_of(const SizeSetting& setting) {
  std::string words = "a size in bytes from " + std::to_string(setting.least) + " to " +
                      std::to_string(setting.most);
  if (setting.multiple > 1) words += ", a multiple of " + std::to_string(setting.multiple);
  return words + "; K, M, G and T are allowed after a number";
}

/// The text, in quotes if it is empty or contains spaces.
std::string visible(const std::string& text) {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  const bool is_plain = !text.empty() && text.find_first_of(kSpaces) == std::string::npos;
  return is_plain ? text : "'" + text + "'";
}

/// The ranks with each value: `256 on ranks 0 and 2, the default on rank 1`.
std::string by_value(const SizeSetting& setting,
                     const std::map<size_t, std::vector<int>>& ranks_of) {
  std::string words;
  for (const auto& [bytes, ranks] : ranks_of) {
    if (!words.empty()) words += ", ";
    bool is_set = bytes >= setting.least && bytes <= setting.most;
    words += is_set ? std::to_string(bytes) : "the default";
    words += ranks.size() > 1 ? " on ranks " : " on rank ";
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (i > 0) words += i + 1 == ranks.size() ? " and " : ", ";
      words += std::to_string(ranks[i]);
    }
  }
  return words;
}

}  // namespace

bool read_size(std::string_view text, size_t& bytes) {
  double number = 0;
  const char* end = text.data() + text.size();
  auto [unit, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || text.front() == '-' || text.front() == '.' || unit[-1] == '.') {
    return false;
  }
  std::string_view rest(unit, static_cast<size_t>(end - unit));
  auto upper = [](char letter) {
    return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  };
  constexpr std::string_view kUnits = "KMGT";
  if (!rest.empty() && kUnits.find(upper(rest.front())) != std::string_view::npos) {
    number = std::ldexp(number, 10 * (static_cast<int>(kUnits.find(upper(rest.front()))) + 1));
    rest.remove_prefix(1);
  }
  if (rest.size() == 2 && upper(rest.front()) == 'I') rest.remove_prefix(1);
  if (rest.size() == 1 && upper(rest.front()) == 'B') rest.remove_prefix(1);
  if (!rest.empty() || !(number < kLargestBytes) || number != std::floor(number)) return false;
  bytes = static_cast<size_t>(number);
  return true;
}

size_t size_from_environment(const SizeSetting& setting) {
  const char* text = std::getenv(setting.variable);
  if (text == nullptr) return setting.usual;
  size_t bytes = 0;
  bool is_size = read_size(text, bytes);
  if (!is_size || bytes < setting.least || bytes > setting.most || bytes % setting.multiple != 0) {
    throw UsageError(std::string(setting.variable) + "=" + visible(text) + ": " +
                     (is_size ? "not allowed" : "not a size") + ": set " + range_of(setting));
  }
  return bytes;
}

std::vector<size_t> agreed_sizes(std::span<const SizeSetting> settings, RankGroup& rank_group) {
  std::vector<size_t> own;
  for (const SizeSetting& setting : settings) own.push_back(size_from_environment(setting));
  // Sizes below a pebibyte are exact in a double.
  std::vector<double> all = rank_group.gather(std::vector<double>(own.begin(), own.end()));
  for (size_t i = 0; i < settings.size(); ++i) {
    std::map<size_t, std::vector<int>> ranks_of;
    for (int rank = 0; rank < rank_group.size(); ++rank) {
      size_t place = static_cast<size_t>(rank) * settings.size() + i;
      ranks_of[static_cast<size_t>(all[place])].push_back(rank_group.number_of(rank));
    }
    if (ranks_of.size() > 1) {
      throw UsageError(std::string(settings[i].variable) + " differs between ranks: " +
                       by_value(settings[i], ranks_of) + ": set the same value for all ranks");
    }
  }
  return own;
}

}  // namespace cclmark
