"""The process of a rank: ``python -m cclmark.rank_process [--runtime NAME | JOBS...]``.

Its job is on standard input, or in a file of ``JOBS``: with those of all ranks of an mpirun and
process, or alone if a debugger has the standard input.
``--runtime``: the runtime of its device, which loads while Python imports the modules of a rank:
the initialisation of a driver takes longer than these imports.
"""

import sys
import threading
from contextlib import suppress

import cclmark._engine as engine


def _load(runtime: str) -> None:
    with suppress(engine.EngineError):  # the rank reports the error when it opens its device
        engine.device_count(runtime)


def main() -> None:
    """Runs the job of this rank and exits."""
    jobs, loading = sys.argv[1:], None
    if sys.argv[1:2] == ["--runtime"]:
        loading = threading.Thread(target=_load, args=(sys.argv[2],), daemon=True)
        loading.start()
        jobs = []
    from cclmark.kinds.registry import KINDS
    from cclmark.rank.worker import run_rank

    run_rank(jobs, loading, KINDS)


if __name__ == "__main__":
    main()
