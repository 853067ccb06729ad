"""Moore Threads' plug-in of torch, as far as it is called."""

import os

from fake_torch_device import register

__version__ = "2.13.0"

register("musa", "mccl", os.environ["CCLMARK_MUSA_LIBRARY"], "musa")
