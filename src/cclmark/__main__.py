"""``python -m cclmark``: the same as ``cclmark``."""

from cclmark.cli.main import main

main()
