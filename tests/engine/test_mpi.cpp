#include <dlfcn.h>
#include <doctest/doctest.h>

#include <string>

#include "ccl/communicator.hpp"
#include "device/device.hpp"
#include "ranks.hpp"
#include "shapes.hpp"

using namespace cclmark;

namespace {

/// What the library of counting_mpi.cpp counts.
struct Counts {
  explicit Counts(void* library)
      : groups(*static_cast<int*>(dlsym(library, "counting_mpi_groups"))),
        communicators(*static_cast<int*>(dlsym(library, "counting_mpi_communicators"))),
        fails(*static_cast<const char**>(dlsym(library, "counting_mpi_fails"))) {}
  int &groups, &communicators;
  const char*& fails;
};

}  // namespace

TEST_CASE("groups and communicators of MPI are freed, also if a call fails") {
  void* library = dlopen(COUNTING_MPI, RTLD_NOW | RTLD_GLOBAL);
  REQUIRE(library != nullptr);
  Counts counts(library);
  for (std::string failing : {"", "MPI_Comm_group", "MPI_Group_incl", "MPI_Comm_create_group",
                              "MPI_Comm_set_errhandler"}) {
    CAPTURE(failing);
    counts.fails = failing.c_str();
    std::string said;
    run_ranks_on_hosts({0}, [&](RankGroup& rank_group, int fd) {
      auto ccl = open_ccl(shape_of("mpi"), {.chosen = COUNTING_MPI, .wheels = {}});
      auto device = open_host_device(0);
      auto subgroup = rank_group.subgroup(fd, {0}, 1);
      try {
        auto communicator = ccl->join(*device, {}, *subgroup);
        if (counts.communicators != 1) throw Error("there must be one communicator");
        communicator->leave();
      } catch (const Error& error) {
        said = error.what();
      }
    });
    CHECK(counts.groups == 0);
    CHECK(counts.communicators == 0);
    CHECK((said.find(failing) != std::string::npos && said.empty() == failing.empty()));
  }
  counts.fails = "";
  dlclose(library);
}
