"""The tables of the history. Whoever changes one adds a migration.

Names begin with ``cclmark_``: a PostgreSQL database may hold other things. Whole numbers are of 64
bits, as those of a journal.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

# SQLite counts up by itself only what it calls an INTEGER.
_Number = BigInteger().with_variant(Integer, "sqlite")


def _run(*, index: bool = False) -> Column[int]:
    """A column that says whose a row is; it goes with its run."""
    to_run = ForeignKey("cclmark_runs.number", ondelete="CASCADE")
    return Column("run", _Number, to_run, nullable=False, index=index)


schema = Table("cclmark_schema", metadata, Column("version", Integer, nullable=False))

# ``started_at`` is UTC in ISO 8601, so that its order is that of time. ``machine`` is what two runs
# must share to be of one machine, ``method`` what they must share to have been measured alike.
runs = Table(
    "cclmark_runs",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("run_id", Text, nullable=False, unique=True),
    Column("digest", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("source", Text, nullable=False),
    Column("added_at", Text, nullable=False),
    Column("started_at", Text, nullable=False),
    Column("hostname", Text, nullable=False),
    Column("devices", Text, nullable=False),
    Column("machine", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("command", Text, nullable=False),
    Column("libraries", Text, nullable=False),
    Column("driver", Text, nullable=False),
    Column("cclmark_version", Text, nullable=False),
    Column("cases", BigInteger, nullable=False),
    Column("not_ok", BigInteger, nullable=False),
    Column("damaged_lines", BigInteger, nullable=False),
    Column("exit_code", BigInteger),
    Column("continues", Text, nullable=False),
    Index("cclmark_runs_started", "started_at"),
)

# The journal as it was added, compressed as a whole and cut into parts of a size that every
# database takes.
journals = Table(
    "cclmark_journals",
    metadata,
    _run(),
    Column("part", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
    UniqueConstraint("run", "part"),
)

labels = Table(
    "cclmark_labels",
    metadata,
    _run(),
    Column("label", Text, nullable=False),
    UniqueConstraint("run", "label"),
)

# What a run measured, in a word each: filters and lists need no more.
operations = Table(
    "cclmark_operations",
    metadata,
    _run(),
    Column("operation", Text, nullable=False),
    Column("ccl", Text, nullable=False),
    UniqueConstraint("run", "operation", "ccl"),
)

# Every case and every transfer that was ever measured, once for each clock that its times are
# by: two clocks are not held against each other. ``document`` is all of it as JSON.
things = Table(
    "cclmark_things",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("digest", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("clock", Text, nullable=False),
    Column("operation", Text, nullable=False),
    Column("ccl", Text, nullable=False),
    Column("ranks", BigInteger),
    Column("dtype", Text),
    Column("reduction", Text),
    Column("root", BigInteger),
    Column("placement", Text),
    Column("size_bytes", BigInteger, nullable=False),
    Column("first", BigInteger),
    Column("second", BigInteger),
    Column("document", Text, nullable=False),
)

# A row for each case or transfer of a run. ``carried``: measured by the run that it continues.
# ``device_time_s``: of the device, where ``time_s`` may be the cost of a call; null where unknown.
results = Table(
    "cclmark_results",
    metadata,
    _run(index=True),
    Column("thing", _Number, ForeignKey("cclmark_things.number"), nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("cycle", BigInteger, nullable=False),
    Column("carried", Boolean, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("samples", BigInteger),
    Column("time_s", Float(53)),
    Column("min_s", Float(53)),
    Column("p95_s", Float(53)),
    Column("p99_s", Float(53)),
    Column("max_s", Float(53)),
    Column("cv", Float(53)),
    Column("half_width", Float(53)),
    Column("device_time_s", Float(53)),
    Column("device_half_width", Float(53)),
    Column("algbw_bytes_per_s", Float(53)),
    Column("busbw_bytes_per_s", Float(53)),
    Column("wrong", BigInteger),
    # All that a trend reads of a row, so that it reads no row.
    Index(
        "cclmark_results_trend",
        *("thing", "run", "status", "carried", "time_s", "half_width"),
        *("device_time_s", "device_half_width"),
    ),
)
