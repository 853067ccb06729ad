"""Programs of this directory that train on several ranks and print what they found as JSON."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from patience import scaled


def found_by(name, *arguments, timeout_s):
    """What the program ``name`` prints. Ends its ranks, too, after at most ``timeout_s``."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name(name)), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Threads at the import of numpy would be lost where it forks.
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=scaled(timeout_s))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, err[-3000:]
    return json.loads(out)
