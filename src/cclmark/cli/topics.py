"""The topics of ``cclmark help TOPIC``, each on one screen. docs/reference/cli.md has them too."""

from __future__ import annotations

TOPICS = {
    "sizes": """\
A size is a number and a unit: 8, 128K, 1.5M, 4G, 1T. K, KB and KiB are the
same, 1024 bytes, in upper or lower case. It is a whole number of bytes, at
least 1 and below 1024T.

  -b 8 -e 128M          8 B, 16 B, 32 B, ... 128 MiB: each twice the last one
  -b 1M -e 1G -f 4      1 MiB, 4 MiB, ... 1 GiB
  -b 1M -e 8M -i 1M     1 MiB, 2 MiB, ... 8 MiB
  -b 64M -e 64M         one size

A sweep begins with -b and multiplies by -f (rounded down) or adds -i until it
exceeds -e; -f and -i exclude each other.

The size of all_reduce, broadcast, reduce and sendrecv is that of one rank's
vector; of all_gather, reduce_scatter, alltoall, gather and scatter that of all
ranks' parts together, as in nccl-tests; of alltoallv that of the rank that
sends most. Sizes are rounded down to whole elements, which a notice reports,
and sizes without an element are left out.""",
    "units": """\
time     microseconds for one operation: the median of the samples, of the
         slowest rank (--across-ranks)
algbw    size / time
busbw    algbw times the factor below: the rate of the busiest rank's link in
         one direction, which can be compared with the hardware
GB/s     10^9 bytes per second, as in nccl-tests and data sheets
KiB      1024 bytes; K, M, G and T of options are powers of 1024 too

Factors, for n ranks:
  all_reduce                                             2(n-1)/n
  all_gather reduce_scatter alltoall gather scatter      (n-1)/n
  broadcast reduce sendrecv                              1
  alltoallv                  the busiest rank's bytes from and to others / size

The factors are those of nccl-tests (doc/PERFORMANCE.md).""",
    "devices": """\
Default: all devices of the first kind of accelerator that has any; without
accelerators the host, with 2 to 8 ranks, which the output says.

  -g 4                      the first four accelerators
  --devices 0,2,3           some of them; also 0-3
  --devices cuda:0-3        of this runtime: cuda, acl, hip, maca, musa, tops,
                            cudart, cnrt or tang
  --devices host            processors as devices, through shared memory
  --devices host:4          four of them
  --devices cuda:0-1+host:2 different ones, with --ccl bridge

Each rank is a process with one device. Variables such as
CUDA_VISIBLE_DEVICES are respected. Accelerators that were found and cannot be
used are an error with code 3, never replaced by the host.

Several hosts: start cclmark with torchrun, mpirun or srun (cclmark help
launchers). What this machine has: cclmark info.""",
    "libraries": """\
Default: the library of the devices: nccl for cuda, hccl for acl, rccl for hip,
shm for the host and so on.

  --ccl nccl                one library
  --ccl nccl,torch:nccl     several, side by side, in one table
  --ccl torch:gloo          a backend of torch.distributed
  --ccl mpi                 an MPI; starts mpirun itself
  --ccl bridge              devices of several vendors, or several hosts
  --ccl-path FILE           this file of the library
  --ccl-file TOML           a library of your own, by a description

Search order: --ccl-path, CCLMARK_NCCL_LIBRARY (CCLMARK_HCCL_LIBRARY, ...),
wheels of this Python, the dynamic loader. The path and the version are printed
and kept with every run.

What this machine has: cclmark info; what each library can do: cclmark info
--ccls; its settings: cclmark settings --ccl NAME.""",
    "launchers": """\
Alone, cclmark starts a process for each device of its host. Started several
times by a launcher, its processes become one run with one table:

  torchrun --nproc-per-node 8 -m cclmark all_reduce -b 8 -e 4G
  mpirun -np 8 cclmark all_reduce -b 8 -e 4G
  srun --nodes 4 --ntasks-per-node 8 --gres gpu:8 cclmark all_reduce -b 8 -e 4G

Open MPI, MPICH, MVAPICH, Slurm, Flux, PALS, torchrun and Kubernetes pods are
detected by their variables; CCLMARK_LAUNCHER names one, or none for this host
alone. The measured library need not be MPI.

Processes on several hosts meet through a directory that all of them share,
~/.cache/cclmark or CCLMARK_SHARED_DIR, or by CCLMARK_SECRET and
CCLMARK_ADDRESS without one.

The first process prints and writes the journal. All processes exit with the
same code.""",
    "formats": """\
--format sets what is printed, to standard output or to the file of -O:

  table        for people: a row per size, findings below
  json         one document: header, cases, findings
  csv          a line per case; --columns A,B chooses fields
  markdown     tables for issues and wikis
  nccl-tests   the layout of nccl-tests (also hccl, flagcx, and pccl for p2p)

Every run also writes a journal, JSON lines in cclmark-runs/ or --journal FILE,
with all samples. From journals:

  cclmark report run.jsonl                      one HTML page
  cclmark export run.jsonl --format parquet     also csv, json, prometheus, ...
  cclmark compare before.jsonl after.jsonl      differences beyond noise
  cclmark history add run.jsonl                 keeps it in a database

A wrong name in --columns lists all fields.""",
    "environment": """\
CCLMARK_NCCL_LIBRARY, ...  file of a library; no other file is tried (--ccl-path
                           has priority)
CCLMARK_MPIRUN             the mpirun that starts ranks where MPI is measured
CCLMARK_LAUNCHER           none: this host alone, without the launcher's other
                           processes
CCLMARK_SHARED_DIR         directory through which processes on several hosts
                           connect
CCLMARK_CACHE_DIR          directory of compiled kernels
CCLMARK_HISTORY            file or URL of the history
CCLMARK_REFERENCES         files and directories of your own references
NO_COLOR                   not empty: no colours, on terminals neither

Variables of libraries (NCCL_*, HCCL_*, CUDA_VISIBLE_DEVICES, LD_LIBRARY_PATH,
...) reach the ranks unchanged; cclmark settings lists them with their values.
All variables of cclmark: docs/reference/environment.md.""",
    "exit-codes": """\
  0    measured, and no checked output is wrong; some cases may have been
       skipped with a reason
  1    measured, but an output was wrong, or a threshold was missed (of a
       suite, --fail-if-slower or --fail-below)
  2    usage: an unknown option, an impossible value, a journal that exists
       already, a file that cannot be read or opened for writing
  3    a device, runtime, library or disk space is missing on this machine, or
       every case was skipped; or what ran is not certain (--explain), or a
       trace is incomplete: the results are kept
  4    a rank died, failed or timed out, or a process of the run stopped
       responding; earlier results are kept
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP (not under nohup), or the reader
       of a run's output closed it: earlier results are in the journal
  141  the reader closed the output of a command that does not measure, as in
       cclmark export ... | head: the code of programs that SIGPIPE ended""",
}
