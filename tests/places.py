"""Where the repository and its tests are."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent
REPOSITORY = TESTS.parent
RESULTS = REPOSITORY / "benchmarks" / "results"
H200X4 = RESULTS / "h200x4"
RUNS = H200X4 / "runs"
#: The documents.
PAGES = [
    *sorted(REPOSITORY.glob("*.md")),
    *(REPOSITORY / name / "README.md" for name in ("examples", "benchmarks")),
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
