// The loop that MPI's own benchmarks have, in plain C: N operations back to back between two
// readings of the clock, the slowest rank, the median over 40 such batches.
//
//   loop OPERATIONS SPARE SIZE...     with commas: all_reduce,all_gather,alltoall,broadcast
//
// Each batch walks through buffers of SPARE bytes from their beginning, as cclmark does, so that
// both touch as much memory; 0: one pair of buffers. It is memory of the same kind as cclmark's
// too, and taken once for all sizes: pages shared by others and from the heap lie elsewhere, which
// decides more than a call costs. Prints a line per operation and size: bytes, as nccl-tests counts
// them, and microseconds per operation in the middle batch.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kBatches = 40, kOperations = 20 };

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static char* allocate(size_t bytes) {
  char* memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (memory == NULL) abort();
  memset(memory, 1, bytes);
  return memory;
}

static void operate(const char* name, const void* send, void* receive, int count, int ranks) {
  if (strcmp(name, "all_reduce") == 0) {
    MPI_Allreduce(send, receive, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else if (strcmp(name, "all_gather") == 0) {
    MPI_Allgather(send, count / ranks, MPI_UINT32_T, receive, count / ranks, MPI_UINT32_T,
                  MPI_COMM_WORLD);
  } else if (strcmp(name, "alltoall") == 0) {
    MPI_Alltoall(send, count / ranks, MPI_UINT32_T, receive, count / ranks, MPI_UINT32_T,
                 MPI_COMM_WORLD);
  } else {
    MPI_Bcast(receive, count, MPI_UINT32_T, 0, MPI_COMM_WORLD);
  }
}

static int ascending(const void* one, const void* other) {
  double a = *(const double*)one, b = *(const double*)other;
  return (a > b) - (a < b);
}

static long aligned(long bytes) {
  return (bytes + 511) / 512 * 512;
}

static void measure(const char* name, long bytes, char* send, char* receive, long room) {
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int count = (int)(bytes / 4), places = (int)(room / aligned(bytes));
  operate(name, send, receive, count, ranks);
  double begin = now_us();
  operate(name, send, receive, count, ranks);
  double once = now_us() - begin, least;
  MPI_Allreduce(&once, &least, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  int operations = least * kOperations < 100 ? (int)(100 / least) + 1 : kOperations;
  double times[kBatches];
  for (int batch = -5; batch < kBatches; ++batch) {
    operate(name, send, receive, count, ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    begin = now_us();
    for (int k = 0; k < operations; ++k) {
      long at = k % places * aligned(bytes);
      operate(name, send + at, receive + at, count, ranks);
    }
    double own = (now_us() - begin) / operations, slowest;
    MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (batch >= 0) times[batch] = slowest;
  }
  qsort(times, kBatches, sizeof(double), ascending);
  if (rank == 0) printf("%s %ld %.4f\n", name, bytes, times[kBatches / 2]);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  long spare = atol(argv[2]), most = 0;
  for (int i = 3; i < argc; ++i) {
    if (aligned(atol(argv[i])) > most) most = aligned(atol(argv[i]));
  }
  long taken = most > spare ? most : spare;
  char* send = allocate((size_t)taken);
  char* receive = allocate((size_t)taken);
  for (char* name = strtok(argv[1], ","); name != NULL; name = strtok(NULL, ",")) {
    for (int i = 3; i < argc; ++i) {
      long stride = aligned(atol(argv[i]));
      measure(name, atol(argv[i]), send, receive, spare > stride ? spare : stride);
    }
  }
  MPI_Finalize();
  return 0;
}
