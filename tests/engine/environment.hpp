#pragma once

#include <cstdlib>
#include <string>

namespace cclmark {

/// A variable of the environment while this exists. No rank may run when it is created or
/// destroyed.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

}  // namespace cclmark
