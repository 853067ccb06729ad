"""A small MPI program: passes a number round all ranks, says so, and ends as it is told.

    mpi.py LIBRARY [finalize | exit CODE | wait SECONDS]

It prints "rank size host sum", where the sum went through all ranks. `exit` leaves without
MPI_Finalize; `wait` stays in MPI before it finalizes.
"""

import ctypes
import os
import socket
import sys
import time

MESSAGE_LENGTH = (4 << 20) // 8


class Mpi:
    """As much of a libmpi as is needed, Open MPI's or MPICH's."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
        if hasattr(self._library, "ompi_mpi_comm_world"):
            self._world, self._byte = (
                ctypes.addressof(ctypes.c_char.in_dll(self._library, name))
                for name in ("ompi_mpi_comm_world", "ompi_mpi_byte")
            )
            self._nowhere, self._handle = 0, ctypes.c_void_p
        else:
            self._world, self._byte = 0x44000000, 0x4C00010D
            self._nowhere, self._handle = 1, ctypes.c_int

    def call(self, name: str, *arguments) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            sys.exit(f"{name} gave {code}")

    def number(self, name: str) -> int:
        found = ctypes.c_int()
        self.call(name, self._handle(self._world), ctypes.byref(found))
        return found.value

    def send(self, number: int, to: int) -> None:
        message = (ctypes.c_longlong * MESSAGE_LENGTH)(number)
        self.call("MPI_Send", *self._described(message, to))

    def receive(self, of: int) -> int:
        message = (ctypes.c_longlong * MESSAGE_LENGTH)()
        self.call("MPI_Recv", *self._described(message, of), ctypes.c_void_p(self._nowhere))
        return message[0]

    def _described(self, message: ctypes.Array, peer: int) -> tuple:
        world, byte = self._handle(self._world), self._handle(self._byte)
        size_bytes = ctypes.c_int(ctypes.sizeof(message))
        return ctypes.byref(message), size_bytes, byte, ctypes.c_int(peer), ctypes.c_int(7), world


mpi = Mpi(sys.argv[1])
ending = sys.argv[2:] or ["finalize"]
mpi.call("MPI_Init", None, None)
rank, size = mpi.number("MPI_Comm_rank"), mpi.number("MPI_Comm_size")
total = 0
for mine in (rank + 1, 0):  # in the second round all learn the sum of the first
    if rank > 0:
        total = mpi.receive(rank - 1)
    mpi.send(total + mine, (rank + 1) % size)
    if rank == 0:
        total = mpi.receive(size - 1)
os.write(1, f"{rank} {size} {socket.gethostname()} {total}\n".encode())
if ending[0] == "exit":
    os._exit(int(ending[1]))
if ending[0] == "wait":
    time.sleep(float(ending[1]))
mpi.call("MPI_Finalize")
