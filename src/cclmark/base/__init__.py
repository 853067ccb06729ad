"""The lowest layer: exit codes, files, printable text, signals and standard output.

- ``errors.py``: the errors of the program and their exit codes.
- ``signals.py``: signals are recorded, and interrupt where nothing is lost by it.
- ``streams.py``: standard output, which may be full, closed, or a pipe that is not read.
- ``standard_error.py``: messages for the user, and how lines are folded.
- ``printable.py``: texts from outside, with control characters visible.
- ``files.py``: files are read with a bounded size and without blocking.
- ``statistics.py``: order statistics, which ranks compute of the times of all ranks, so that its
  functions must be deterministic.
- ``grouping.py``: values by key, and many texts as the first of them.
- ``version.py``: the version of this program.

Imports: nothing.
"""
