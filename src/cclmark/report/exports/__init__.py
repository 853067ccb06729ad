"""Journals as flat, typed tables for other programs.

``exports.py`` lists the formats of ``cclmark export`` for several journals. ``flat_table.py`` has
the columns that identify a run, before those of the kind's layout; ``parquet.py`` (pyarrow, an
optional package) and ``prometheus.py`` write them. Columns come from the fields of each kind.
"""
