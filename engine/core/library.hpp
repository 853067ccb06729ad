#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"

namespace cclmark {

/// The value of an environment variable; nullptr if it is not set, or empty.
const char* setting(const char* variable);
/// The parts of such a value between colons; none if it is not set.
std::vector<std::string> setting_list(const char* variable);

/// A vendor's shared library, loaded once and never unloaded: vendors keep threads and exit
/// handlers inside, and unmapping their code under them crashes at exit.
class Library {
 public:
  /// The visibility of a library's symbols: some libraries load parts that require them globally.
  enum class Symbols { for_us, for_all };

  /// A file that is not loaded, and the reason.
  struct Refused {
    std::string name;
    std::string reason;
  };

  /// Loads the first of `candidates` (paths or sonames) that loads.
  /// `variable` names the environment variable that the user may set to choose another file; empty
  /// where that would change nothing. `refused`: further files, for the message only.
  /// Raises MissingError that lists the candidates and the reason why each failed, and the refused
  /// files, as far as they exist.
  static Library open(const std::string& what, const std::vector<std::string>& candidates,
                      const std::string& variable, Symbols symbols = Symbols::for_us,
                      const std::vector<Refused>& refused = {});

  /// The function called `symbol`. Raises MissingError when the library lacks it.
  template <typename Function>
  Function* require(const char* symbol) const {
    void* address = find(symbol);
    if (address == nullptr) {
      throw MissingError(path_ + " has no symbol " + symbol +
                         ": it is too old, or not the library that its name suggests");
    }
    return reinterpret_cast<Function*>(address);
  }

  /// The function called `symbol`, or nullptr: an absent symbol is an absent capability.
  template <typename Function>
  Function* optional(const char* symbol) const {
    return reinterpret_cast<Function*>(find(symbol));
  }

  /// The file that the loader really mapped.
  const std::string& path() const { return path_; }

 private:
  Library(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  void* find(const char* symbol) const;

  void* handle_;
  std::string path_;
};

/// A file that this process has loaded besides `path` whose name begins alike ("libx.so"): the same
/// library a second time. Empty where there is none.
std::string twin_of(const std::string& path);

}  // namespace cclmark
