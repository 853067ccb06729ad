"""A job that uses NCCL through ctypes, as a program that knows nothing of cclmark.

    nccl_job.py CUDA NCCL [--steps N] [--kill RANK:STEP] [--exit CODE] [--wait] [--group]

It starts its ranks as a launcher does, with RANK and WORLD_SIZE. Every step has two all_reduces of
256 float32 elements, one of 1 MiB, an all_gather of 64 bfloat16 elements a rank, and two messages.
"""

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

FLOAT32, BFLOAT16, SUM = 7, 9, 0
BYTES = 1 << 20
NOT_READY = 600
RANKS = 2


class UniqueId(ctypes.Structure):
    _fields_ = (("content", ctypes.c_char * 128),)


def check(code, call):
    if code != 0:
        sys.exit(f"{call} failed with {code}")


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("cuda")
    parser.add_argument("nccl")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--kill", default="")
    parser.add_argument("--exit", type=int, default=0)
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--group", action="store_true")
    parser.add_argument("--only-communicator", action="store_true")
    return parser.parse_args()


def launch(given):
    ranks = []
    # As torchrun and mpirun do: ranks end with their launcher.
    signal.signal(signal.SIGTERM, lambda number, frame: [rank.terminate() for rank in ranks])
    note = Path(f"id-{os.getpid()}")
    for rank in range(RANKS):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "NOTE": str(note)}
        ranks.append(subprocess.Popen([sys.executable, *sys.argv], env=env))
    codes = [None] * RANKS
    while None in codes:
        codes = [rank.poll() for rank in ranks]
        if any(codes):  # a rank has failed: the others would wait for it
            for rank in ranks:
                rank.terminate()
            codes = [rank.wait() for rank in ranks]
        time.sleep(0.01)
    note.unlink(missing_ok=True)
    sys.exit(next((code if code > 0 else 1 for code in codes if code), given.exit))


def wait_for(path):
    deadline_s = time.monotonic() + 120
    while not path.exists():
        if time.monotonic() > deadline_s:
            sys.exit(f"{path} does not appear")
        time.sleep(0.01)


def unique_id(nccl, rank):
    note = Path(os.environ["NOTE"])
    found = UniqueId()
    if rank == 0:
        check(nccl.ncclGetUniqueId(ctypes.byref(found)), "ncclGetUniqueId")
        whole = note.with_suffix(".new")
        whole.write_bytes(bytes(found))
        whole.rename(note)
    wait_for(note)
    return UniqueId.from_buffer_copy(note.read_bytes())


def allocated(cuda):
    address = ctypes.c_ulonglong()
    check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(BYTES)), "cuMemAlloc")
    return ctypes.c_void_p(address.value)


def work(given):
    rank = int(os.environ["RANK"])
    cuda = ctypes.CDLL(given.cuda)
    nccl = ctypes.CDLL(given.nccl)
    context = ctypes.c_void_p()
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), rank), "cuDevicePrimaryCtxRetain")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    stream = ctypes.c_void_p()
    check(cuda.cuStreamCreate(ctypes.byref(stream), 0), "cuStreamCreate")
    buffers = [allocated(cuda) for _ in range(2)]
    communicator = ctypes.c_void_p()
    nccl.ncclCommInitRank.argtypes = (
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.c_int,
        UniqueId,
        ctypes.c_int,
    )
    own = unique_id(nccl, rank)
    check(nccl.ncclCommInitRank(ctypes.byref(communicator), RANKS, own, rank), "ncclCommInitRank")
    end = (communicator, stream)
    ahead = Path(f"{os.environ['NOTE']}.ahead")

    def all_reduce(count):
        size = ctypes.c_size_t(count)
        check(nccl.ncclAllReduce(*buffers, size, FLOAT32, SUM, *end), "ncclAllReduce")

    for step in range(0 if given.only_communicator else given.steps):
        if given.kill == f"{rank}:{step}":
            wait_for(ahead)  # the other ranks have called more
            os.kill(os.getpid(), signal.SIGKILL)
        all_reduce(256)
        all_reduce(256)
        all_reduce(BYTES // 4)
        size = ctypes.c_size_t(64)
        check(nccl.ncclAllGather(*buffers, size, BFLOAT16, *end), "ncclAllGather")
        check(nccl.ncclGroupStart(), "ncclGroupStart")
        check(nccl.ncclSend(buffers[0], size, FLOAT32, (rank + 1) % RANKS, *end), "ncclSend")
        check(nccl.ncclRecv(buffers[1], size, FLOAT32, (rank - 1) % RANKS, *end), "ncclRecv")
        check(nccl.ncclGroupEnd(), "ncclGroupEnd")
        if given.group:
            check(nccl.ncclGroupStart(), "ncclGroupStart")
            all_reduce(100)
            all_reduce(200)
            check(nccl.ncclGroupEnd(), "ncclGroupEnd")
        if given.kill.endswith(f":{step}"):
            ahead.touch()
    while cuda.cuStreamQuery(stream) == NOT_READY:
        time.sleep(0.001)
    check(nccl.ncclCommDestroy(communicator), "ncclCommDestroy")


def main():
    given = options()
    if given.wait:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))
        print("waiting", flush=True)
        time.sleep(60)
    if "RANK" not in os.environ:
        launch(given)
    work(given)


main()
