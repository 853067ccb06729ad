"""Around a run: joining the processes of a launcher, the journal, what is printed, resuming.

Imports: base, document, journal, launch, rank, references, rendezvous, work.

``joining.py`` decides whether a command runs alone or as one of the processes of a launcher.
``recorder.py`` has ``record``, which a command calls: it opens the journal, launches the ranks and
writes each result to the journal first, then to the exporter; it makes header and results printable
for the exporter, the journal receives them unchanged. ``resuming.py`` continues a journal.
``caller.py`` holds the caller of a run; nothing is printed for a program. ``output.py`` and
``standard_output.py`` print where the reader may have exited or does not read, and replace files;
``run_files.py`` names those that the user did not name, ``trace_files.py`` those of traces.

Signals are deferred from before a journal is created until it is closed, see
docs/architecture.md. Start with ``record`` in ``recorder.py``.
"""
