"""The entry point: of ``python -m cclmark`` and of ``cclmark``.

It imports next to nothing before Ctrl-C is handled and the standard descriptors are there: the rest
takes a moment to import, and may open files.
"""

import sys

from cclmark.base.signals import leave_at_once, on_ending_signals
from cclmark.base.streams import open_missing_descriptors


def main() -> None:
    """Imports the command line and runs it."""
    on_ending_signals(leave_at_once)
    open_missing_descriptors()
    from cclmark.cli.main import main as run

    run()


def main_of_pccl() -> None:
    """The same for command lines of PCCL's tool, which begin with its name."""
    sys.argv.insert(1, "p2pBandwidthLatencyTest")
    main()


if __name__ == "__main__":
    main()
