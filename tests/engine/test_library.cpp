#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "ccl/communicator.hpp"
#include "core/library.hpp"
#include "shapes.hpp"

using namespace cclmark;

namespace {

std::string message_of(const std::vector<std::string>& candidates) {
  try {
    Library::open("the library", candidates, "SOME_VARIABLE");
  } catch (const MissingError& error) {
    return error.what();
  }
  return "";
}

/// A path that no other process of these tests has.
std::string own_file(const std::string& name) {
  return "/tmp/cclmark-test-" + std::to_string(getpid()) + "-" + name;
}

}  // namespace

TEST_CASE("what was tried, why it failed and what to set are all said") {
  std::string message = message_of({"/nonexistent/libone.so", "libtwo-nowhere.so.9"});
  CHECK(message.find("/nonexistent/libone.so") != std::string::npos);
  CHECK(message.find("libtwo-nowhere.so.9") != std::string::npos);
  CHECK(message.find("SOME_VARIABLE") != std::string::npos);
}

TEST_CASE("a file that is no library is refused with the loader's reason") {
  std::string path = own_file("not-a-library.so");
  std::ofstream(path) << "this is text";
  CHECK(message_of({path}).find(path) != std::string::npos);
  std::remove(path.c_str());
}

TEST_CASE("a file for another processor is not called absent") {
  std::string path = own_file("other-processor.so");
  std::filesystem::copy_file("/proc/self/exe", path,
                             std::filesystem::copy_options::overwrite_existing);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(18);  // e_machine
  file.write("\xf3\x7f", 2);
  file.close();
  CHECK(message_of({path}).find("is for another processor") != std::string::npos);
  std::filesystem::remove(path);
}

TEST_CASE("a library that is cut off is refused before the loader touches it") {
  std::string whole = Library::open("libc", {"libc.so.6"}, "").path();
  std::string path = own_file("cut-off.so");
  std::filesystem::copy_file(whole, path, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::resize_file(path, 5000);
  CHECK(message_of({path}).find("is cut off: it has 5000 of at least") != std::string::npos);
  std::filesystem::resize_file(path, 100);
  CHECK(message_of({path}).find("is cut off") != std::string::npos);
  std::filesystem::remove(path);
}

TEST_CASE("a missing symbol is named together with the file") {
  Library libc = Library::open("libc", {"libc.so.6"}, "SOME_VARIABLE");
  CHECK(libc.path().front() == '/');
  bool absent = libc.optional<void()>("cclmark_no_such_symbol") == nullptr;
  CHECK(absent);
  CHECK_THROWS_AS(libc.require<void()>("cclmark_no_such_symbol"), MissingError);
}

TEST_CASE("unknown libraries and devices are refused") {
  CHECK_THROWS_AS(open_ccl(shape_of("nothing"), {}), Error);
  CHECK_THROWS_AS(open_ccl(shape_of("shm"), {"/some/file", {}}), Error);
  CHECK(find_runtime("nothing") == nullptr);
}
