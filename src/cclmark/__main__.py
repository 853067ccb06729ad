"""The entry point: of ``python -m cclmark`` and of ``cclmark``.

It imports next to nothing before Ctrl-C is taken care of: the rest takes a moment to import.
"""

from cclmark.signals import leave_at_once, on_ending_signals


def main() -> None:
    """Imports the command line and runs it."""
    on_ending_signals(leave_at_once)
    from cclmark.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
