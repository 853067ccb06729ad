#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "ccl/communicator.hpp"
#include "core/library.hpp"

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

}  // namespace

TEST_CASE("what was tried, why it failed and what to set are all said") {
  std::string message = message_of({"/nonexistent/libone.so", "libtwo-nowhere.so.9"});
  CHECK(message.find("/nonexistent/libone.so") != std::string::npos);
  CHECK(message.find("libtwo-nowhere.so.9") != std::string::npos);
  CHECK(message.find("SOME_VARIABLE") != std::string::npos);
}

TEST_CASE("a file that is no library is refused with the loader's reason") {
  std::string path = "/tmp/cclmark-test-not-a-library.so";
  std::ofstream(path) << "this is text";
  CHECK(message_of({path}).find(path) != std::string::npos);
  std::remove(path.c_str());
}

TEST_CASE("a missing symbol is named together with the file") {
  Library libc = Library::open("libc", {"libc.so.6"}, "SOME_VARIABLE");
  CHECK(libc.path().front() == '/');
  bool absent = libc.optional<void()>("cclmark_no_such_symbol") == nullptr;
  CHECK(absent);
  CHECK_THROWS_AS(libc.require<void()>("cclmark_no_such_symbol"), MissingError);
}

TEST_CASE("unknown libraries and devices are refused") {
  CHECK_THROWS_AS(open_ccl("nothing", {}), Error);
  CHECK_THROWS_AS(open_ccl("shm", {"/some/file", {}}), Error);
  CHECK(find_runtime("nothing") == nullptr);
}
