#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/dtype.hpp"

namespace cclmark {

/// In CclDescription::dtypes and reductions: the library has no such type or reduction.
inline constexpr int kUnavailable = -1;

/// The names of exchanges in a library with NCCL's interface, without the prefix, and their
/// arguments.
struct ExchangeNames {
  std::string alltoall = "AlltoAll";
  /// Empty where the library has none.
  std::string alltoallv;
  /// In releases that lack those; empty where there are none.
  std::string older_alltoall, older_alltoallv;
  /// Count and type are given for what is sent and for what is received.
  bool typed_twice = false;
};

/// Another library with the same prefix, which may be found in place of this one.
struct SimilarCcl {
  std::string name;
  std::string full_name;
  /// A symbol by which it is identified; empty where there is none.
  std::string identified_by;
};

/// The description of a library from a file of src/cclmark/libraries (see work/libraries.py).
/// Fields that a shape does not use keep their defaults.
struct CclDescription {
  std::string name;
  /// The code that opens it: a row of ccl/ccl.cpp.
  std::string shape;
  /// As its makers write it ("RCCL"), and the same with their name ("AMD's RCCL").
  std::string title, full_name;
  /// The prefix of its functions' names.
  std::string prefix;
  /// Paths or sonames, best first.
  std::vector<std::string> files;
  /// The environment variable that names another file.
  std::string variable;
  /// As NCCL writes versions: 21805 is 2.18.5.
  int oldest_version = 0;
  /// The library's numbers, by Dtype and by Reduction.
  std::array<int, kDtypes.size()> dtypes = filled_with_unavailable<kDtypes.size()>();
  std::array<int, kReductions.size()> reductions = filled_with_unavailable<kReductions.size()>();
  /// Oldest version and device architecture that reduce 8-bit floats.
  int fp8_version = 0;
  int fp8_architecture = 0;
  /// 8-bit floats may be FNUZ: their codes stand for half of what OCP's do. What is added, compared
  /// or averaged has the same bits, products have not.
  bool fp8_halved = false;
  /// A symbol of the library, or of one that it depends on, which distinguishes this vendor's
  /// library from others with the same prefix; empty if none does.
  std::string identified_by;
  /// Derived from another vendor's runtime and library, whose symbol does not distinguish them.
  bool derived = false;
  ExchangeNames exchanges;
  /// Those of the same prefix.
  std::vector<SimilarCcl> similar;

 private:
  template <size_t size>
  static constexpr std::array<int, size> filled_with_unavailable() {
    std::array<int, size> codes{};
    for (int& code : codes) code = kUnavailable;
    return codes;
  }
};

}  // namespace cclmark
