"""Verdicts on a suite."""

from cclmark.suites.checks import CommandVerdict, Judgement, SuiteVerdict, Verdict


def held(case, value, bound, margin, values=()):
    return Judgement(case, list(values) or [value], value, value, bound, margin, margin >= 0)


SLOW = held("all_reduce 1 MiB", 80e9, 100e9, -0.2, [70e9, 80e9, 90e9])
GOOD = held("all_reduce 2 MiB", 101e9, 100e9, 0.01)
LATE = held("all_reduce 8 B", 9e-6, 10e-6, 0.1)
SUITE = SuiteVerdict(
    "mine",
    "A title",
    "node7",
    "2026-01-02T03:04:05.678+00:00",
    12.5,
    False,
    4,
    [
        CommandVerdict(
            "large",
            ["all_reduce", "-b", "8"],
            ["quick"],
            3,
            10.0,
            ["runs/01-large.1.jsonl"],
            [
                Verdict("ran", "pass"),
                Verdict("data", "pass", "6 checked, none wrong"),
                Verdict("busbw at least 100 GB/s", "fail", "", 1, "busbw", [SLOW, GOOD]),
                Verdict("time at most 10 us", "pass", "", 0, "time", [LATE]),
            ],
        ),
        CommandVerdict(
            "p2p",
            ["p2p"],
            [],
            1,
            2.5,
            [],
            [
                Verdict("ran", "error", "exit code 4: rank 1 died", 4),
                Verdict("latency at most 5 us", "skipped", "not measured", 0, "latency"),
            ],
        ),
    ],
)
