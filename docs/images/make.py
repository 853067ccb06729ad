"""Makes the pictures of the documents anew, out of journals in benchmarks/results/h200x4.

python docs/images/make.py        needs cclmark[pictures,serve], playwright and Chromium
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "benchmarks" / "results" / "h200x4"


def cclmark(*arguments: object) -> None:
    """Runs it."""
    subprocess.run([sys.executable, "-m", "cclmark", *map(str, arguments)], check=True)


def shot(page: Page, html: Path, name: str) -> None:
    """What a reader sees first."""
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(html.as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    page.screenshot(path=HERE / f"{name}.png")


@contextmanager
def served(database: Path) -> Iterator[str]:
    """The address of ``cclmark serve`` over the journals of the documents."""
    journals = sorted((RESULTS / "runs").glob("*.jsonl")) + sorted((RESULTS / "report").glob("*"))
    cclmark("history", "add", "--db", database, *journals)
    command = [sys.executable, "-m", "cclmark", "serve", "--db", database.name, "--port", "8399"]
    process = subprocess.Popen(command, cwd=database.parent)
    try:
        for _ in range(100):
            with suppress(OSError), urllib.request.urlopen("http://127.0.0.1:8399/healthz"):
                break
            time.sleep(0.1)
        yield "http://127.0.0.1:8399/"
    finally:
        process.terminate()
        process.wait(timeout=10)


def main() -> None:
    """All of them."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        directory = Path(name)
        report, comparison = directory / "report.html", directory / "comparison.html"
        journals = RESULTS / "report"
        cclmark("report", journals / "nccl_and_torch.jsonl", "-o", report)
        runs = [RESULTS / "runs" / f"{one}.jsonl" for one in ("default-1", "ctas8")]
        cclmark("compare", *runs, "--format", "html", "-O", comparison)
        cclmark("report", "--svg", directory, journals / "nccl_and_torch.jsonl")
        shutil.copy(directory / "all_reduce-float32-sum-bandwidth.svg", HERE / "all_reduce.svg")
        cclmark("report", "--svg", directory, journals / "pairs.jsonl")
        for chart in ("pairs-all_reduce-bandwidth-128-mib", "pairs-bandwidth"):
            shutil.copy(directory / f"{chart}.svg", HERE / f"{chart}.svg")
        slow = ("--topology", "rail:2048x8", "--slow-link", "gpu9001-leaf=0.25")
        simulated = directory / "simulated.jsonl"
        cclmark("simulate", *slow, "--algorithm", "hierarchical,tree", "--journal", simulated)
        cclmark("report", "--svg", directory, simulated)
        shutil.copy(directory / "link-load.svg", HERE / "simulated-slow-link.svg")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_context(color_scheme="light").new_page()
        shot(page, report, "report")
        shot(page, comparison, "comparison")
        with served(directory / "history.sqlite") as address:
            page.set_viewport_size({"width": 1280, "height": 760})
            page.goto(address)
            page.screenshot(path=HERE / "history.png")
        browser.close()


if __name__ == "__main__":
    main()
