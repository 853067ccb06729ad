#pragma once

#include <string>

namespace selftest {

/// The functions of a library by name, with the types that the caller says.
class Library {
 public:
  explicit Library(const std::string& path);
  bool has(const char* symbol) const;

  /// Calls a function that returns int; arguments have to have exactly the types of its parameters.
  template <typename... Arguments>
  int operator()(const char* symbol, Arguments... arguments) const {
    return reinterpret_cast<int (*)(Arguments...)>(find(symbol))(arguments...);
  }
  template <typename... Arguments>
  const char* text(const char* symbol, Arguments... arguments) const {
    return reinterpret_cast<const char* (*)(Arguments...)>(find(symbol))(arguments...);
  }

 private:
  void* find(const char* symbol) const;
  void* handle_;
};

std::string cuda_path();
std::string nvrtc_path();
std::string nccl_path(bool old = false);

using Address = unsigned long long;
inline Address address(const void* memory) {
  return reinterpret_cast<Address>(memory);
}

/// A device of the fake driver in this process, current on this thread, with one stream.
class Gpu {
 public:
  explicit Gpu(int device);
  void* allocate(size_t bytes) const;
  void write(void* to, const void* host, size_t bytes) const;
  void read(void* host, const void* from, size_t bytes) const;
  /// Waits for the stream.
  void wait() const;

  Library cuda;
  void* context = nullptr;
  void* stream = nullptr;
};

}  // namespace selftest
