"""Documents: what runs say, as data, and the renderers that turn it into text and pages.

Imports: analysis, base, explain, journal, references, work.

A kind composes its document once (``kinds/*/document.py``) from ``blocks.py``, as do comparisons,
trends of a history and checks against references; renderers know blocks only: ``document_text.py``
(terminal, Markdown) and ``page/`` (HTML).
``fields.py`` has the fields of a kind's results, from which CSV, Parquet, Prometheus and the table
of a page follow. ``report_kind.py`` is the definition of a kind for reports.

- Formats: ``exporter.py`` is the interface (beginning, one result at a time, end), ``exporters.py``
  the table; ``columns.py`` with CSV, ``json_format.py``, ``openmetrics.py``.
- Shared parts of documents: ``head.py``, ``remarks.py``, ``soundness.py``,
  ``reference_notes.py``, ``explained.py``, ``why.py``, ``step_words.py``, ``peaks.py``, …
- Charts as numbers and names without colours and pixels: ``chart_model.py``.

Every text that enters is printable already, see docs/architecture.md. Start with ``blocks.py`` and
the document of one room, for example ``kinds/memory/document.py``.
"""
