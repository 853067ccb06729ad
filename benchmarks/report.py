"""How long a journal of thousands of cases takes to read, and its report to make and to open.

    python benchmarks/report.py [--cases 5000] [--rounds 5] [--out FILE.json]

The journal is made of real results with all of their raw samples
(results/h200x4/report/collectives.jsonl), again and again under other types and libraries.
"Ready" is when the page's table, links and buttons answer (its own mark), "drawn" when its first
texts and charts are on the screen (Chromium's first contentful paint), both counted from the start
of the page's navigation. Requires playwright and Chromium.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from playwright.sync_api import sync_playwright

from cclmark.kinds.registry import read_journal

SOURCE = Path(__file__).parent / "results" / "h200x4" / "report" / "collectives.jsonl"
SETTLED_S = 5.0
TYPES = ("float32", "float16", "bfloat16", "float64", "int8", "int32", "int64", "uint8")


def write_journal(path: Path, cases: int) -> None:
    header, *results, footer = SOURCE.read_text().splitlines()
    with path.open("w") as file:
        file.write(header + "\n")
        for number in range(cases):
            turn, place = divmod(number, len(results))
            result = json.loads(results[place])
            result["index"] = number
            result["case"]["dtype"] = TYPES[turn % len(TYPES)]
            result["case"]["ccl"] = f"nccl{turn // len(TYPES) or ''}"
            file.write(json.dumps(result, separators=(",", ":")) + "\n")
        file.write(footer + "\n")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def open_page(path: Path, anchor: str) -> tuple[float, float]:
    """Seconds until the page is ready, and until its first charts are drawn, in a new Chromium.

    Nothing is attached to the browser until the page has had time: under a debugger V8 keeps
    positions of Plotly's source, which costs more than drawing does.
    """
    port = free_port()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = subprocess.Popen(
            [
                shutil.which("chromium") or "chromium",
                "--headless=new",
                "--no-sandbox",
                "--no-first-run",
                f"--user-data-dir={profile}",
                f"--remote-debugging-port={port}",
                "--window-size=1280,1600",
                f"{path.as_uri()}#{anchor}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            time.sleep(SETTLED_S)
            with sync_playwright() as playwright:
                seen = playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{port}")
                page = seen.contexts[0].pages[0]
                names = ("cclmark-ready", "first-contentful-paint")
                for name in names:
                    page.wait_for_function(
                        f"performance.getEntriesByName('{name}').length", timeout=60_000
                    )
                ready_ms, drawn_ms = (
                    page.evaluate(f"performance.getEntriesByName('{name}')[0].startTime")
                    for name in names
                )
                seen.close()
        finally:
            browser.terminate()
            browser.wait(timeout=30)
    return ready_ms / 1e3, drawn_ms / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    figures: dict[str, list[float]] = {"read_s": [], "made_s": [], "ready_s": [], "drawn_s": []}
    with tempfile.TemporaryDirectory() as name:
        journal, page = Path(name) / "run.jsonl", Path(name) / "run.html"
        write_journal(journal, args.cases)
        anchor = ""
        for _ in range(args.rounds):
            began_s = time.perf_counter()
            read_journal(journal)
            figures["read_s"].append(time.perf_counter() - began_s)
            began_s = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "cclmark", "report", str(journal), "-o", str(page)],
                check=True,
                capture_output=True,
            )
            figures["made_s"].append(time.perf_counter() - began_s)
            anchor = anchor or re.findall(r'<figure id="([^"]+)"', page.read_text())[0]
            ready_s, drawn_s = open_page(page, anchor)
            figures["ready_s"].append(ready_s)
            figures["drawn_s"].append(drawn_s)
        sizes = {"journal_mb": journal.stat().st_size / 1e6, "page_mb": page.stat().st_size / 1e6}
    for key, values in figures.items():
        print(f"{key:>8}  median {median(values):.2f}  {min(values):.2f} to {max(values):.2f}")
    print(", ".join(f"{key} {value:.1f}" for key, value in sizes.items()))
    if args.out:
        args.out.write_text(json.dumps({"cases": args.cases} | figures | sizes, indent=1) + "\n")


if __name__ == "__main__":
    main()
