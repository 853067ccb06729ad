"""The record of a run: the schema, the journal, the description of the machine.

Imports: base, explain, work.

- ``schema.py``: the versioned definition of a journal, used by every reader and writer;
  docs/reference/journal.md describes it. ``item_results.py``: what results of all kinds have.
- ``journal_file.py``: JSON lines, appended and readable after any interruption of the writer.
  Its texts become printable when they are read, unless the reader asks for them ``as_written``.
  ``sample_times.py``: the compact text of samples. ``summaries.py``: the figures of a case from
  its samples, which lines leave out. ``page_journals.py``: journals in pages, which are read in the
  place of files.
- ``kind.py``: the record of a kind of work (``Kind``), which rooms fill in.
- ``resume.py``: outlines of plans, what a journal lacks of one; ``method.py``: settings that make
  runs comparable; ``surroundings.py``: differences of machines and runs.
- ``machine.py``, ``host_processors.py``, ``topology.py``, ``setting_values.py``: the machine,
  read once per run. ``secrets.py`` removes passwords and keys.

Older schema versions stay readable; readers refuse newer ones and ignore unknown fields. Start with
``schema.py`` and ``item_results.py``.
"""
