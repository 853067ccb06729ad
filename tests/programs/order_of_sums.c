// Shows in which order MPI_Allreduce adds: sums of numbers whose rounding depends on it.
//
//     order_of_sums BYTES...
//
// Prints a line per size: the bytes, and a hash of rank 0's sums or the message of MPI. The same
// algorithm prints the same hash; another one, which adds in another order, prints another.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Numbers of different sizes: a float of 24 bits loses some of every sum.
static float element(int rank, int place) {
  uint32_t mixed = (uint32_t)(rank + 1) * 2654435761u ^ (uint32_t)(place + 1) * 40503u;
  mixed ^= mixed >> 15;
  mixed *= 2246822519u;
  mixed ^= mixed >> 13;
  return (float)(mixed & 0xffffff) / (float)(1u << (mixed >> 28));
}

static uint64_t hash(const float* sums, int count) {
  uint64_t found = 14695981039346656037u;
  for (int i = 0; i < count; ++i) {
    uint32_t bits;
    memcpy(&bits, &sums[i], sizeof bits);
    found = (found ^ bits) * 1099511628211u;
  }
  return found;
}

static void sum(int rank, long bytes) {
  int count = (int)(bytes / (long)sizeof(float));
  float* input = calloc(1, (size_t)bytes);
  float* sums = malloc((size_t)bytes);
  if (input == NULL || sums == NULL) abort();
  for (int i = 0; i < count; ++i) input[i] = element(rank, i);
  int code = MPI_Allreduce(input, sums, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && code == MPI_SUCCESS) {
    printf("%ld %016llx\n", bytes, (unsigned long long)hash(sums, count));
  } else if (rank == 0) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    printf("%ld %s\n", bytes, text);
  }
  free(input);
  free(sums);
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 1; i < argc; ++i) sum(rank, atol(argv[i]));
  MPI_Finalize();
  return 0;
}
