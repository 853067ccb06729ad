"""The entry point: of ``python -m cclmark`` and of ``cclmark``.

It imports next to nothing before Ctrl-C is taken care of: the rest takes a moment to import.
"""

import sys

from cclmark.signals import leave_at_once, on_ending_signals


def main() -> None:
    """Imports the command line and runs it."""
    on_ending_signals(leave_at_once)
    from cclmark.cli.main import main as run

    run()


def main_of_pccl() -> None:
    """The same for command lines of PCCL's tool, which begin with its name."""
    sys.argv.insert(1, "p2pBandwidthLatencyTest")
    main()


if __name__ == "__main__":
    main()
