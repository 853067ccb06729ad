// MPICH's interface for a single process. Counts groups and communicators; the call named by
// counting_mpi_fails fails.

#include <cstdio>
#include <cstring>

extern "C" {

int counting_mpi_groups = 0, counting_mpi_communicators = 0;
const char* counting_mpi_fails = "";

namespace {

constexpr int kWorld = 0x44000000, kNull = 0;
int last_handle = 100;

/// Creates a handle unless `call` is to fail.
int create(const char* call, int* handle, int& count) {
  if (std::strcmp(call, counting_mpi_fails) == 0) return 1;
  *handle = ++last_handle;
  ++count;
  return 0;
}

int release(int* handle, int& count) {
  if (*handle <= 100) return 1;  // nothing that was created here
  *handle = kNull;
  --count;
  return 0;
}

}  // namespace

int MPI_Get_library_version(char* text, int* length) {
  *length = std::snprintf(text, 100, "Counting MPI 1");
  return 0;
}
int MPI_Init_thread(int*, char***, int, int* level) {
  *level = 3;
  return 0;
}
int MPI_Initialized(int* flag) {
  *flag = 0;
  return 0;
}
int MPI_Query_thread(int* level) {
  *level = 3;
  return 0;
}
int MPI_Finalize() {
  return 0;
}
int MPI_Comm_rank(int, int* rank) {
  *rank = 0;
  return 0;
}
int MPI_Comm_size(int, int* size) {
  *size = 1;
  return 0;
}
int MPI_Comm_set_errhandler(int communicator, int) {
  return communicator != kWorld && std::strcmp("MPI_Comm_set_errhandler", counting_mpi_fails) == 0;
}
int MPI_Error_string(int, char* text, int* length) {
  *length = std::snprintf(text, 100, "a failure of the test");
  return 0;
}
int MPI_Comm_group(int, int* group) {
  return create("MPI_Comm_group", group, counting_mpi_groups);
}
int MPI_Group_incl(int, int, const int*, int* group) {
  return create("MPI_Group_incl", group, counting_mpi_groups);
}
int MPI_Group_free(int* group) {
  return release(group, counting_mpi_groups);
}
int MPI_Comm_create_group(int, int, int, int* communicator) {
  return create("MPI_Comm_create_group", communicator, counting_mpi_communicators);
}
int MPI_Comm_free(int* communicator) {
  return release(communicator, counting_mpi_communicators);
}

// Not called here, but required.
#define UNUSED(function) \
  int function() {       \
    return 1;            \
  }
UNUSED(MPI_Allreduce)
UNUSED(MPI_Allgather)
UNUSED(MPI_Reduce_scatter_block)
UNUSED(MPI_Bcast)
UNUSED(MPI_Reduce)
UNUSED(MPI_Alltoall)
UNUSED(MPI_Alltoallv)
UNUSED(MPI_Gather)
UNUSED(MPI_Scatter)
UNUSED(MPI_Sendrecv)
UNUSED(MPI_Barrier)
UNUSED(MPI_Issend)
UNUSED(MPI_Irecv)
UNUSED(MPI_Test)
UNUSED(MPI_Iprobe)
UNUSED(MPI_Send)
UNUSED(MPI_Recv)
}
