"""Huawei's plug-in of torch, as far as it is called."""

import os

from fake_torch_device import register

__version__ = "2.13.0"

register("npu", "hccl", os.environ["CCLMARK_ASCENDCL_LIBRARY"], "aclrt")
