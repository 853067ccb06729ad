"""Compiles the kernels with NVRTC for each compute capability given (80 90 100)."""

import os
import sys

from cclmark import _engine as engine
from cclmark.rank.locate import wheel_files

os.environ["CCLMARK_CACHE_DIR"] = ""  # compile, whatever an earlier run left
os.environ.setdefault("CCLMARK_NVRTC_WHEELS", ":".join(wheel_files("nvrtc")))
for architecture in sys.argv[1:]:
    for source in engine.kernel_sources():
        image = engine.compile_for_cuda(source, int(architecture))
        if image[:4] != b"\x7fELF":
            sys.exit(f"{source} for sm_{architecture}: not a cubin")
        print(f"{source} for sm_{architecture}: {len(image)} bytes")
