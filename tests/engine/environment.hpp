#pragma once

#include <cstdlib>
#include <string>

namespace cclmark {

/// Sets a variable of the environment until it is destroyed. No rank may run at either time.
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
