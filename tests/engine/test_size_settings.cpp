#include <doctest/doctest.h>

#include <array>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "core/size_settings.hpp"
#include "environment.hpp"
#include "ranks.hpp"

using namespace cclmark;

namespace {

constexpr const char* kName = "CCLMARK_TEST_BYTES";
constexpr SizeSetting kSetting{kName, 64, size_t{1} << 20, 4096, 64};

std::optional<size_t> read(std::string_view text) {
  size_t bytes = 0;
  return read_size(text, bytes) ? std::optional(bytes) : std::nullopt;
}

std::string refusal(const std::string& value) {
  Variable variable(kName, value);
  try {
    size_from_environment(kSetting);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("sizes are read as the command line reads them") {
  CHECK(read("0") == 0);
  CHECK(read("8") == 8);
  CHECK(read("128K") == 128 << 10);
  CHECK(read("128k") == 128 << 10);
  CHECK(read("4G") == size_t{4} << 30);
  CHECK(read("1GiB") == size_t{1} << 30);
  CHECK(read("2MB") == 2 << 20);
  CHECK(read("12B") == 12);
  CHECK(read("1.5M") == 3 << 19);
  for (const char* text : {"", " ", "K", "-1", "+1", "1.5", ".5K", "5.K", "1KK", "1iK", "1 K", "8 ",
                           " 8", "0x10", "1e3", "inf", "nan", "1024T", "99999999999999999999"}) {
    INFO(text);
    CHECK(!read(text));
  }
}

TEST_CASE("a setting has its own value without a variable, else that of the variable") {
  CHECK(size_from_environment(kSetting) == 4096);
  Variable variable(kName, "8K");
  CHECK(size_from_environment(kSetting) == 8192);
}

TEST_CASE("a value that is not allowed is refused with what is") {
  const std::string allowed =
      "set a size in bytes from 64 to 1048576, a multiple of 64; K, M, G and T are allowed after a "
      "number";
  CHECK(refusal("many") == "CCLMARK_TEST_BYTES=many: not a size: " + allowed);
  CHECK(refusal("") == "CCLMARK_TEST_BYTES='': not a size: " + allowed);
  CHECK(refusal(" 64") == "CCLMARK_TEST_BYTES=' 64': not a size: " + allowed);
  CHECK(refusal("64Q") == "CCLMARK_TEST_BYTES=64Q: not a size: " + allowed);
  for (const char* value : {"0", "2M", "100"}) {
    std::string expected = kName;
    expected.append("=").append(value).append(": not allowed: ").append(allowed);
    CHECK(refusal(value) == expected);
  }
  CHECK(refusal("1M").empty());
}

TEST_CASE("all ranks get the value that all of them have") {
  Variable variable(kName, "64K");
  run_ranks(3, [](RankGroup& rank_group) {
    CHECK(agreed_sizes(std::array{kSetting}, rank_group) == std::vector<size_t>{65536});
  });
}

TEST_CASE("values that differ are refused on every rank, with ranks and values") {
  run_ranks(3, [](RankGroup& rank_group) {
    // As if a rank had another environment.
    SizeSetting own = kSetting;
    if (rank_group.rank() == 1) own.usual = 8192;
    CHECK_THROWS_WITH_AS(
        agreed_sizes(std::array{own}, rank_group),
        "CCLMARK_TEST_BYTES differs between ranks: 4096 on ranks 0 and 2, 8192 on rank 1: set the "
        "same value for all ranks",
        UsageError);
  });
}

TEST_CASE("a default that depends on the group differs from every value that can be set") {
  run_ranks(2, [](RankGroup& rank_group) {
    SizeSetting own = kSetting;
    own.usual = rank_group.rank() == 1 ? own.least : own.most + 1;
    CHECK_THROWS_WITH_AS(
        agreed_sizes(std::array{own}, rank_group),
        "CCLMARK_TEST_BYTES differs between ranks: 64 on rank 1, the default on rank 0: set the "
        "same value for all ranks",
        UsageError);
  });
}
