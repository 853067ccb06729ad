"""Every format against a stored text. UPDATE_GOLDEN=1 rewrites them: read the diff."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cclmark.document.exporters import exporter_of
from cclmark.kinds.registry import KINDS, read_journal
from cclmark.plan.items import COLLECTIVE

GOLDEN = Path(__file__).parents[1] / "golden"
FILES = {
    "csv": "sample.csv",
    "json": "sample.json",
    "markdown": "sample.md",
    "nccl-tests": "sample.nccl-tests.txt",
    "flagcx": "sample.flagcx.txt",
    "hccl": "sample.hccl.txt",
}
SAMPLE = read_journal(GOLDEN / "sample.jsonl")


@pytest.mark.parametrize("name", FILES)
def test_a_whole_run_reads_as_stored(name):
    exporter = exporter_of(KINDS[COLLECTIVE], name)
    text = exporter.begin(SAMPLE.header)
    text += "".join(exporter.add(result) for result in SAMPLE.results)
    text += exporter.end(SAMPLE.footer)
    golden = GOLDEN / FILES[name]
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_a_run_cut_short_loses_no_result_that_came_before(name):
    exporter = exporter_of(KINDS[COLLECTIVE], name)
    text = exporter.begin(SAMPLE.header)
    text += exporter.add(SAMPLE.results[0])
    text += exporter.end(None)
    assert "1024" in text or "1 KiB" in text
    assert text.endswith("\n")


@pytest.mark.parametrize("name", FILES)
def test_a_run_without_cases_is_still_a_text(name):
    exporter = exporter_of(KINDS[COLLECTIVE], name)
    text = exporter.begin(SAMPLE.header) + exporter.end(None)
    assert text.endswith("\n")


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_imports_none_of_its_formats(kind):
    """A run imports only the format that it writes."""
    code = (
        f"import sys; from cclmark.kinds.registry import report_kind; report_kind({kind!r})\n"
        "print(*(name for name in sys.modules if name.startswith(('cclmark.', 'jinja2'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = ("collective.markdown", "nccl_tests", "flagcx", "hccl", "charts.pictures", "jinja2")
    assert not [name for name in done.stdout.split() if name.endswith(heavy)]
