// Half the round trip of 16 bytes between the first ranks of both hosts, while all other ranks of
// the job rest: what the processes of a larger job cost a pair by the library alone.
//
//     mpicc -O2 benchmarks/mpi/pair_beside_resting.c -o pair_beside_resting
//     mpirun --host a:1,b:1 -np 2 ./pair_beside_resting
//     mpirun --host a:2,b:2 -np 4 ./pair_beside_resting
//
// Prints the median of 40 samples of 5,000 round trips in microseconds. If both hosts are one
// machine, ranks of the first host run on processor 0, the others on processor 1.
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kSamples = 40, kRoundTrips = 5000, kBytes = 16, kRestUs = 2000 };

static int compare(const void* one, const void* other) {
  double difference = *(const double*)one - *(const double*)other;
  return (difference > 0) - (difference < 0);
}

static double sample_us(int rank, MPI_Comm pair) {
  char message[kBytes] = {0};
  double begin_s = MPI_Wtime();
  for (int trip = 0; trip < kRoundTrips; ++trip) {
    if (rank == 0) MPI_Send(message, kBytes, MPI_BYTE, 1, 0, pair);
    MPI_Recv(message, kBytes, MPI_BYTE, 1 - rank, 0, pair, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(message, kBytes, MPI_BYTE, 0, 0, pair);
  }
  return (MPI_Wtime() - begin_s) / (2.0 * kRoundTrips) * 1e6;
}

int main(int count, char** words) {
  MPI_Init(&count, &words);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int other = ranks / 2;
  cpu_set_t processor;
  CPU_ZERO(&processor);
  CPU_SET(rank >= other, &processor);
  sched_setaffinity(0, sizeof processor, &processor);
  int measures = rank == 0 || rank == other;
  MPI_Comm pair;
  MPI_Comm_split(MPI_COMM_WORLD, measures ? 0 : MPI_UNDEFINED, rank, &pair);
  MPI_Barrier(MPI_COMM_WORLD);
  if (measures) {
    double times_us[kSamples];
    for (int number = 0; number < kSamples; ++number) times_us[number] = sample_us(rank != 0, pair);
    qsort(times_us, kSamples, sizeof times_us[0], compare);
    if (rank == 0) printf("%.3f\n", times_us[kSamples / 2]);
  }
  MPI_Request end;
  MPI_Ibarrier(MPI_COMM_WORLD, &end);
  for (int is_over = 0; !is_over; MPI_Test(&end, &is_over, MPI_STATUS_IGNORE)) {
    if (!measures) usleep(kRestUs);
  }
  MPI_Finalize();
  return 0;
}
