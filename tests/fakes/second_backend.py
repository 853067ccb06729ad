"""A second backend of torch.distributed, for ``--import``: gloo by another name.

It writes to standard output, as libraries do, and rank 0 is late where one group has ended and the
next is not made yet.
"""

import os
import time

import torch.distributed as dist

os.write(1, b"{ the backend says hello\n")
_destroy = dist.destroy_process_group


def _destroy_late():
    late = dist.get_rank() == 0
    _destroy()
    if late:
        time.sleep(1.0)


dist.destroy_process_group = _destroy_late
dist.Backend.register_backend("second", dist.ProcessGroupGloo, devices=["cpu"])
