"""Compiles the kernels with NVRTC for each compute capability given (80 90 100)."""

import os
import sys

from cclmark import _engine as engine
from cclmark.run.locate import wheel_files

os.environ["CCLMARK_CACHE_DIR"] = ""  # compile, whatever an earlier run left
os.environ.setdefault("CCLMARK_NVRTC_WHEELS", ":".join(wheel_files("nvrtc")))
for architecture in sys.argv[1:]:
    image = engine.compile_for_cuda(int(architecture))
    if image[:4] != b"\x7fELF":
        sys.exit(f"sm_{architecture}: not a cubin")
    print(f"sm_{architecture}: {len(image)} bytes")
