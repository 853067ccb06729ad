"""Enflame's plug-in of torch, as far as it is called."""

import os

from fake_torch_device import register

__version__ = "2.13.0"

register("gcu", "eccl", os.environ["CCLMARK_TOPS_LIBRARY"], "tops")
