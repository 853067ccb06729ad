"""The text formats of cases, besides the table, JSON and CSV.

To add a format: a module with its exporter, and a line here.
"""

from __future__ import annotations

# The module below cclmark.report.kinds, and the exporter, which has no arguments.
CASE_FORMATS = {
    "markdown": ("case_markdown", "CaseMarkdown"),
    "nccl-tests": ("nccl_tests", "NcclTestsExporter"),
    "flagcx": ("flagcx", "FlagcxExporter"),
    "hccl": ("hccl", "HcclExporter"),
}
