/* Times MPI's collectives the way cclmark times its own, for benchmarks/shm/compare.py.
 *
 *     mpirun -np N mpi_loop OPERATION SPARE_BYTES BATCHES SIZE...
 *
 * Sizes count as nccl-tests counts them: all ranks' parts together for all_gather, reduce_scatter
 * and alltoall. Buffers come from malloc, the elements are floats, reductions are sums. As in
 * engine/measure/session.cpp, operations run back to back in batches after a barrier, as many as
 * in src/cclmark/analysis/stopping.py, and each operation of a batch uses other memory than the one
 * before; a send and a receive buffer have room for the largest size, and for SPARE_BYTES at least.
 * A batch's figure is its slowest rank's time; the output has the median and the least of the
 * batches, in seconds an operation. There are BATCHES of them, or fewer where they take longer than
 * a second together. */

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kAlignment = 512, kWarmUpBatches = 4, kLeastBatches = 5 };
static const double kMostSeconds = 1;

typedef struct {
  const char* name;
  int send_parts, receive_parts; /* 1: `count` elements; 0: that for every rank */
  int spans_ranks;               /* the size counts the parts of all ranks together */
  void (*run)(const void* send, void* receive, int count);
} Collective;

static void all_reduce(const void* send, void* receive, int count) {
  MPI_Allreduce(send, receive, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void all_gather(const void* send, void* receive, int count) {
  MPI_Allgather(send, count, MPI_FLOAT, receive, count, MPI_FLOAT, MPI_COMM_WORLD);
}
static void reduce_scatter(const void* send, void* receive, int count) {
  MPI_Reduce_scatter_block(send, receive, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void broadcast(const void* send, void* receive, int count) {
  (void)send; /* MPI's broadcast is in place; its one buffer is the one that rotates */
  MPI_Bcast(receive, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}
static void reduce(const void* send, void* receive, int count) {
  MPI_Reduce(send, receive, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}
static void alltoall(const void* send, void* receive, int count) {
  MPI_Alltoall(send, count, MPI_FLOAT, receive, count, MPI_FLOAT, MPI_COMM_WORLD);
}

static const Collective kCollectives[] = {
    {"all_reduce", 1, 1, 0, all_reduce},
    {"all_gather", 1, 0, 1, all_gather},
    {"reduce_scatter", 0, 1, 1, reduce_scatter},
    {"broadcast", 1, 1, 0, broadcast},
    {"reduce", 1, 1, 0, reduce},
    {"alltoall", 0, 0, 1, alltoall},
};

static size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

static void* filled(size_t bytes) {
  float* memory = malloc(bytes);
  if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  for (size_t i = 0; i < bytes / sizeof(float); ++i) memory[i] = (float)(i % 7);
  return memory;
}

static int ascending(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static int operations_per_batch(double time) {
  return (int)fmin(fmin(fmax(20, ceil(100e-6 / time)), ceil(10e-3 / time)), 1000);
}

/* Runs one batch and returns the slowest rank's seconds an operation. */
static double batch(const Collective* collective, char* send, size_t send_stride, char* receive,
                    size_t receive_stride, size_t slots, int count, int operations) {
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = MPI_Wtime();
  for (int i = 0; i < operations; ++i) {
    size_t slot = (size_t)i % slots; /* each batch from the start, as cclmark's */
    collective->run(send + slot * send_stride, receive + slot * receive_stride, count);
  }
  double own = (MPI_Wtime() - begin) / operations, slowest;
  MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Collective* collective = NULL;
  for (size_t i = 0; argc > 4 && i < sizeof(kCollectives) / sizeof(kCollectives[0]); ++i) {
    if (strcmp(kCollectives[i].name, argv[1]) == 0) collective = &kCollectives[i];
  }
  int batches = argc > 4 ? atoi(argv[3]) : 0;
  if (collective == NULL || batches < 1) {
    if (rank == 0) fprintf(stderr, "usage: mpi_loop OPERATION SPARE_BYTES BATCHES SIZE...\n");
    MPI_Finalize();
    return 2;
  }
  size_t capacity = strtoull(argv[2], NULL, 10);
  for (int i = 4; i < argc; ++i) {
    size_t size = strtoull(argv[i], NULL, 10);
    if (size > capacity) capacity = size;
  }
  capacity = aligned(capacity);
  char *send = filled(capacity), *receive = filled(capacity);
  double* times = malloc((size_t)batches * sizeof(double));

  if (rank == 0) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",")] = '\0';
    printf("{\"library\": \"%s\", \"times_s\": {", version);
  }
  for (int i = 4; i < argc; ++i) {
    size_t size = strtoull(argv[i], NULL, 10);
    size_t count = size / sizeof(float) / (collective->spans_ranks ? (size_t)ranks : 1);
    size_t all = count * (size_t)ranks;
    size_t send_stride = aligned((collective->send_parts ? count : all) * sizeof(float));
    size_t receive_stride = aligned((collective->receive_parts ? count : all) * sizeof(float));
    size_t slots = capacity / (send_stride > receive_stride ? send_stride : receive_stride);
    double elapsed = 0;
    int operations = 1, measured = 0;
    for (int b = -kWarmUpBatches; b < batches; ++b) {
      if (elapsed > kMostSeconds && measured >= kLeastBatches) break;
      double time = batch(collective, send, send_stride, receive, receive_stride, slots, (int)count,
                          operations);
      if (b < 0) {
        operations = operations_per_batch(time);
      } else {
        times[measured++] = time;
        elapsed += time * operations; /* the same on every rank, as the time is */
      }
    }
    qsort(times, (size_t)measured, sizeof(double), ascending);
    if (rank == 0) {
      printf("%s\"%zu\": [%.9g, %.9g]", i > 4 ? ", " : "", size, times[measured / 2], times[0]);
    }
  }
  if (rank == 0) printf("}}\n");
  MPI_Finalize();
  return 0;
}
