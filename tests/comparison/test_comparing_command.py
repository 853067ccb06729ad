"""``cclmark compare``: on the terminal, for a pull request, for CI."""

import json
import re
import shutil
from pathlib import Path

import pytest

from places import RUNS
from samples import edited, with_header

FIRST = "fa3d6a0ec1c84c559bb0eb9291906219"  # the id of default-1


NCCL_TESTS = (
    "# nThread 1 nGpus 2 minBytes 8 maxBytes 8192 step: 2(factor) warmup iters: 5 iters: 20 agg",
    "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong",
    "#   (B)  (elements)  (us)  (GB/s)  (GB/s)  (us)  (GB/s)  (GB/s)",
)


def run(name):
    return str(RUNS / f"{name}.jsonl")


def several(*names):
    return ",".join(map(run, names))


def test_a_difference_is_told_with_its_reason_and_its_interval(cclmark):
    told = cclmark("compare", run("default-1"), run("ctas8"))
    assert "NCCL_MAX_CTAS: not set before, 8 after" in told.out
    assert "128 MiB     613.70    1074.5           1.751  1.722 - 1.781  slower" in told.out
    assert "26 cases: 8 slower, 18 inconclusive" in told.out
    assert "three runs of each side measure it" in told.out
    assert told.out.count("all_reduce float32 sum in-place") == 1
    assert told.err == ""


def test_no_difference_is_told_as_none(cclmark):
    told = cclmark("compare", several("default-1", "default-2", "default-3"), run("buff8"))
    assert "26 cases: 8 no difference, 18 inconclusive" in told.out
    assert "  margin of 5 %: no difference where the interval is within it" in told.out
    assert "  noise from run to run is assumed: 20%" in told.out
    three = several("default-4", "default-5", "default-6")
    told = cclmark("compare", several("default-1", "default-2", "default-3"), three)
    assert "  noise from run to run is assumed: 20%" not in told.out


def of_another_machine(tmp_path, name):
    """That run as if of A100, of which nothing is assumed."""

    def change(entry):
        for device in entry.get("devices", []):
            device["name"] = "NVIDIA A100-SXM4-80GB"

    return changed(tmp_path, name, change)


def test_elsewhere_the_noise_is_unknown_until_the_history_has_measured_it(cclmark, tmp_path):
    first, second = (of_another_machine(tmp_path, name) for name in ("default-1", "ctas8"))
    home = {"XDG_DATA_HOME": str(tmp_path / "home")}
    told = cclmark("compare", first, second, env=home).out
    assert "  noise from run to run is unknown for this machine: " in told
    assert "26 not judged: the noise between runs is unknown for this machine: 2 more" in told
    gated = ("compare", first, second, "--fail-if-slower", "5%")
    message = cclmark(*gated, env=home, code=2).message
    assert "can be judged: the noise between runs is unknown for this machine: 2 more" in message

    runs = [of_another_machine(tmp_path, f"default-{number}") for number in range(2, 8)]
    cclmark("history", "add", *runs, env=home)
    told = cclmark("compare", first, second, env=home).out
    assert "  noise from run to run is of this machine, measured by the runs in its history" in told
    assert re.search(r"128 MiB .* slower", told)
    assert "slower by 5 % or more" in cclmark(*gated, env=home, code=1).err
    elsewhere = {**home, "CCLMARK_HISTORY": str(tmp_path / "none.sqlite")}
    assert "unknown for this machine" in cclmark("compare", first, second, env=elsewhere).out

    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(b"SQLite format 3\x00" + b"x" * 4096)
    told = cclmark("compare", first, second, env={**home, "CCLMARK_HISTORY": str(broken)})
    assert told.err.count("the noise of this machine in its history is not used: ") == 1
    assert "unknown for this machine" in told.out


def imported(cclmark, tmp_path, sizes, time_us):
    """The journal of a text of nccl-tests on two ranks with these sizes."""
    rows = [
        f"{size} {size // 4} float sum -1 {time_us} {size / time_us / 1e3:.2f} "
        f"{size / time_us / 1e3:.2f} 0 {time_us} {size / time_us / 1e3:.2f} "
        f"{size / time_us / 1e3:.2f} 0"
        for size in sizes
    ]
    text = tmp_path / f"{min(sizes)}-{max(sizes)}-{time_us}.txt"
    text.write_text(
        "\n".join(
            [*NCCL_TESTS, *rows, "# Out of bounds values : 0 OK", "# Avg bus bandwidth : 0.1", ""]
        )
    )
    journal = text.with_suffix(".jsonl")
    cclmark("import", str(text), "--operation", "all_reduce", "--ranks", "2", "-o", str(journal))
    return str(journal)


def test_sizes_that_only_one_side_measured_are_told(cclmark, tmp_path):
    before = imported(cclmark, tmp_path, (128, 256, 512), 20.0)
    after = imported(cclmark, tmp_path, (256, 512, 1024), 20.5)
    told = cclmark("compare", before, after)
    assert (
        "    sizes of all_reduce float32 sum out-of-place · nccl, 2 ranks: 128 B, 256 B "
        "and 512 B before, 256 B, 512 B and 1 KiB after, 2 sizes in common"
    ) in told.out
    same = cclmark("compare", before, imported(cclmark, tmp_path, (128, 512, 256), 21.0))
    assert " in common" not in same.out
    found = json.loads(cclmark("compare", before, after, "--format", "json").out)
    assert [one for one in found[0]["differences"] if "sizes in common" in one]


def test_operations_that_only_one_side_measured_are_told(cclmark, tmp_path):
    def drop(entry):
        is_large = entry.get("case", {}).get("size_bytes", 0) > 1 << 20
        return not is_large and not entry.get("case", {}).get("in_place")

    told = cclmark("compare", run("default-1"), str(changed(tmp_path, "default-2", drop)))
    assert "none that the journals record" not in told.out
    assert "    all_reduce float32 sum in-place · nccl, 4 ranks: only before, " in told.out
    assert "    sizes of all_reduce float32 sum out-of-place · nccl, 4 ranks: " in told.out


def test_ci_fails_where_something_is_slower_by_so_much(cclmark):
    told = cclmark("compare", run("default-1"), run("ctas8"), "--fail-if-slower", "5%", code=1)
    assert "8 slower by 5 % or more, the worst all_reduce 2 MiB" in told.err
    faster = cclmark("compare", run("ctas8"), run("default-1"), "--fail-if-slower", "5", code=2)
    assert "18 of 26 cases are inconclusive at 5 %" in faster.message
    assert cclmark("compare", run("default-1"), run("ctas8"), "--fail-if-slower", "200%").err == ""


def changed(tmp_path, name, change):
    """A copy of that run that ``change`` has altered, see ``edited``."""
    file = tmp_path / f"changed-{name}.jsonl"
    file.write_bytes(edited(Path(run(name)).read_bytes(), change))
    return str(file)


class TestGate:
    """What cannot fail must not pass."""

    def test_what_it_cannot_decide_does_not_pass(self, cclmark, tmp_path):
        """Launches differ by as much: one run of each cannot tell."""

        def slower(entry):
            if entry.get("case", {}).get("size_bytes", 1 << 30) <= 128 << 10:
                entry["summary"]["time_s"] *= 1.35

        after = changed(tmp_path, "default-1", slower)
        text = Path(after).read_text()
        run_id = json.loads(text.splitlines()[0])["run_id"]
        Path(after).write_text(text.replace(run_id, "0" * len(run_id)))
        gate = ("compare", run("default-1"), after, "--fail-if-slower", "5%")
        told = cclmark(*gate, code=2)
        assert "26 cases: 8 no difference, 18 inconclusive" in told.out
        assert (
            "18 of 26 cases are inconclusive at 5 %: they vary too much from run to run (519 runs "
            "of each side would decide them). Measure with --timing auto, whose device times vary "
            "less, raise the margin, or use --allow-inconclusive" in told.message
        )
        assert cclmark(*gate, "--allow-inconclusive").err == ""
        assert (
            "--allow-inconclusive requires --fail-if-slower"
            in cclmark(*gate[:3], "--allow-inconclusive", code=2).message
        )

    def test_device_times_decide_it(self, cclmark, tmp_path):
        def timed_auto(name, ratio):
            def change(entry):
                if entry["type"] == "header":
                    entry["settings"]["timing"] = "auto"
                elif entry["type"] == "case" and entry["case"]["size_bytes"] <= 512 << 10:
                    summary = {**entry["summary"], "time_s": 5e-6 * ratio}
                    entry["device"] = {"samples": entry["samples"], "summary": summary}

            return changed(tmp_path, name, change)

        before, equal = timed_auto("default-1", 1), timed_auto("default-2", 1)
        slower = timed_auto("default-3", 1.35)
        gate = ("--fail-if-slower", "5%")
        passed = cclmark("compare", before, equal, *gate)
        assert "26 cases: 26 no difference" in passed.out
        assert "  calls cost " in passed.out
        failed = cclmark("compare", before, slower, *gate, code=1)
        assert "18 slower by 5 % or more, the worst all_reduce 8 B" in failed.err
        assert (
            "all_reduce · nccl, up to 32 KiB: 14 cases together are slower by 5 % or more: "
            "1.350 times as long" in failed.err
        )
        (found,) = json.loads(cclmark("compare", before, slower, "--format", "json").out)
        assert found["launches"]["count"] == 18
        assert found["launches"]["device_verdict"] == "slower"
        assert found["cases"][0]["before_s"] == pytest.approx(5e-6)
        assert found["cases"][0]["call_before_s"] > 5e-6

    @pytest.mark.parametrize("reason", ["runs with it", "pairs"])
    def test_where_timing_auto_is_no_advice(self, cclmark, tmp_path, reason):
        def change(entry):
            if entry["type"] == "case" and reason == "pairs":
                entry["case"].update(operation="sendrecv", pair=[0, 1], reduction=None)
            elif entry["type"] == "case":
                entry["device_reason"] = "the library cannot be captured"
            elif entry["type"] == "header" and reason != "pairs":
                entry["settings"]["timing"] = "auto"

        sides = [changed(tmp_path, name, change) for name in ("default-1", "default-2")]
        told = cclmark("compare", *sides, "--fail-if-slower", "5%", code=2)
        assert "are inconclusive at 5 %: they vary too much" in told.message
        assert "would decide them). Raise the margin, or use" in told.message
        assert "--timing auto" not in told.message

    def test_another_clock_is_the_reason_and_no_number_of_runs(self, cclmark, tmp_path):
        def by_host(entry):
            if entry.get("case", {}).get("size_bytes", 0) >= 64 << 20:
                entry["summary"]["clock"] = "host"

        after = changed(tmp_path, "default-2", by_host)
        gate = ("compare", run("default-1"), after, "--fail-if-slower", "200%")
        told = cclmark(*gate, code=2)
        assert (
            "2 of 26 cases cannot be compared, for example all_reduce 128 MiB float32 sum"
        ) in told.message
        assert "the device's clock before, the host's clock after" in told.message
        assert "inconclusive at" not in told.message
        assert "runs of each side" not in told.message
        cclmark(*gate, "--allow-inconclusive")

    def test_nothing_that_can_be_judged(self, cclmark, tmp_path):
        def without_spread(entry):
            if entry["type"] == "case":
                entry["summary"].pop("half_width")

        coarse = changed(tmp_path, "ctas8", without_spread)
        assert "26 noise unknown" in cclmark("compare", run("default-1"), coarse).out
        told = cclmark("compare", run("default-1"), coarse, "--fail-if-slower", "5%", code=2)
        assert "26 not judged: too few samples" in told.out
        assert "can be judged: too few samples to estimate the error of a time" in told.message
        # One of two that cannot be judged is enough.
        both = ("compare", run("default-1"), run("default-2"), coarse)
        cclmark(*both, "--fail-if-slower", "5%", code=2)

    def test_cases_that_are_not_there_any_more(self, cclmark, tmp_path):
        def smaller(entry):
            return entry.get("case", {}).get("size_bytes", 0) < 64 << 20

        def broken(entry):
            if entry.get("case", {}).get("size_bytes") == 8:
                entry.update(status="timeout", reason="rank 1 hung", summary=None)

        for change, count, reason in (
            (smaller, 2, "not measured after"),
            (broken, 2, "timeout: rank 1 hung after"),
        ):
            after = changed(tmp_path, "default-2", change)
            gate = ("compare", run("default-1"), after, "--fail-if-slower", "5%")
            told = cclmark(*gate, code=1)
            assert f"{count} measured before but not after, for example all_reduce" in told.err
            assert reason in told.err
            cclmark("compare", run("default-1"), after)
            # What only the second has is no loss.
            cclmark("compare", after, run("default-1"), "--fail-if-slower", "100%")

    def test_a_journal_that_was_cut(self, cclmark, tmp_path):
        cut = tmp_path / "cut.jsonl"
        cut.write_bytes(Path(run("default-1")).read_bytes()[:-3000])
        lacks = "cut.jsonl: the end of the run is missing; 24 of 26 results are there; damaged"
        told = cclmark("compare", "cut.jsonl", run("default-2"))
        assert f"  {lacks}" in told.out
        assert told.err == ""
        told = cclmark("compare", "cut.jsonl", run("default-2"), "--format", "markdown")
        assert f"- {lacks}" in told.out
        told = cclmark("compare", "cut.jsonl", run("default-2"), "--format", "json")
        assert json.loads(told.out)[0]["incomplete"][0].startswith(lacks)
        told = cclmark("compare", "cut.jsonl", run("default-2"), "--fail-if-slower", "100%")
        assert told.err.startswith(f"cclmark: {lacks}")

    @pytest.mark.parametrize(
        ("text", "hint"),
        [
            *(("0.05", "is ambiguous, 5% or 0.05%: write it with %"), ("1001%", "must not exceed")),
            *(("-5%", "write a share such as 5%"), ("", "the value is empty")),
            # Shares that are small or large on purpose.
            *((text, "") for text in ("0.5%", "0", "1", "1000%")),
        ],
    )
    def test_shares(self, cclmark, text, hint):
        code = 2 if hint else 0 if text == "1000%" else 1
        gate = ("compare", run("default-1"), run("ctas8"), "--fail-if-slower", text)
        assert hint in cclmark(*gate, code=code).message


class TestLibraries:
    """One library against another: both are named."""

    @pytest.fixture
    def rccl(self, tmp_path):
        def renamed(entry):
            if entry["type"] == "header":
                entry["libraries"] = [
                    {**one, "name": "rccl", "version": "2.27.7", "path": "/opt/rccl.so"}
                    if one["name"] == "nccl"
                    else one
                    for one in entry["libraries"]
                ]
            if entry["type"] == "case":
                entry["case"]["ccl"] = "rccl"

        return changed(tmp_path, "ctas8", renamed)

    def test_heads_and_differences(self, cclmark, rccl):
        told = cclmark("compare", run("default-1"), rccl).out
        assert "all_reduce float32 sum out-of-place · nccl → rccl, 4 ranks" in told
        assert "· nccl, 4 ranks" not in told
        [line] = [one for one in told.splitlines() if "2.27.7" in one]
        assert line.startswith("    library: nccl 2.")
        assert line.endswith(" before, rccl 2.27.7 from /opt/rccl.so after")
        assert "not set after" not in told

    def test_for_a_pull_request_and_for_a_program(self, cclmark, rccl):
        told = cclmark("compare", run("default-1"), rccl, "--format", "markdown").out
        assert told.count("## all_reduce float32 sum in-place · nccl → rccl, 4 ranks") == 1
        told = cclmark("compare", run("default-1"), rccl, "--format", "json").out
        [found] = json.loads(told)
        assert found["ccls"] == ["nccl", "rccl"]
        assert {one["ccl"] for one in found["cases"]} == {"nccl"}
        told = cclmark("compare", run("default-1"), run("ctas8"), "--format", "json").out
        assert json.loads(told)[0]["ccls"] is None


def test_several_are_compared_with_the_first(cclmark):
    told = cclmark("compare", run("default-1"), run("buff8"), run("ctas8"), "--format", "json")
    first, second = json.loads(told.out)
    assert first["after"].endswith("buff8.jsonl")
    assert {case["verdict"] for case in first["cases"]} == {"no difference", "inconclusive"}
    slower = [case for case in second["cases"] if case["verdict"] == "slower"]
    assert len(slower) == 8
    assert all(case["low"] <= case["ratio"] <= case["high"] for case in slower)
    assert second["differences"][-1] == "NCCL_MAX_CTAS: not set before, 8 after"


def test_for_a_pull_request_the_rest_is_folded_away(cclmark, tmp_path):
    file = tmp_path / "comment.md"
    told = cclmark(
        *("compare", run("default-1"), run("ctas8"), "--format", "markdown", "-O", str(file))
    )
    assert told.out == ""
    assert told.err == f"cclmark: written {file}\n"
    text = file.read_text()
    assert text.index("- 8 slower beyond noise") < text.index("##")
    assert "| all_reduce · nccl, above 1 MiB | 8 | 1.829 | 1.803 - 1.855 | slower |" in text
    assert text.count("## all_reduce float32 sum") == 2
    assert "<details>" not in text
    alike = cclmark("compare", run("default-1"), run("buff8"), "--format", "markdown").out
    shown, *folded = alike.split("<details>")
    assert "all_reduce float32 sum" not in shown
    assert [part.count(" MiB |") + part.count(" B |") for part in folded] == [8, 8]


class TestWrongInput:
    def refused(self, cclmark, *arguments):
        return cclmark("compare", *arguments, code=2).message

    @pytest.fixture
    def inputs(self, tmp_path):
        """Files to compare: copies, and what is no run to compare."""
        whole, other = (Path(run(name)).read_bytes() for name in ("default-1", "default-2"))
        first = whole.splitlines(keepends=True)[0]
        graph = other.replace(b'"timing":"throughput"', b'"timing":"graph"')
        files = {
            **{"copy": whole, "cut": whole[:-3000], "early": first, "graph": graph},
            **{"empty": b"", "foreign": b"# nThread 1 nGpus 4\n"},
            **{"unnamed": with_header(whole, run_id=""), "copied": with_header(whole, run_id="")},
            **{"unnamed-other": with_header(other, run_id="")},
        }
        for name, content in files.items():
            (tmp_path / f"{name}.jsonl").write_bytes(content)
        return [f"{name}.jsonl" for name in files]

    @pytest.mark.parametrize(
        ("sides", "said"),
        [
            (("ctas8", "nothing"), "nothing.jsonl"),
            (("ctas8", "foreign"), "is not a journal"),
            (("empty", "ctas8"), "empty.jsonl"),
            (("ctas8", "early"), "contains no results, and no times to compare"),
            (("ctas8", "../p2p"), "ctas8.jsonl contains collectives, and"),
            (("ctas8", "../p2p"), "p2p.jsonl contains copies between devices (p2p): these are not"),
            (("default-1,graph", "ctas8"), "are not runs of the same configuration"),
            (("default-1,graph", "ctas8"), "--timing"),
            (("default-1,ctas8", "default-2"), "NCCL_MAX_CTAS: not set before, 8 in the other"),
            (("default-1,default-1", "ctas8"), "lists a journal twice"),
            (("default-1,copy", "ctas8"), f"copy.jsonl are journals of the same run ({FIRST})"),
            # A slip in a script must not become a pass.
            (("default-1", "default-1"), "Use different runs on the two sides"),
            (("default-1,default-2,default-3", "default-2"), "BEFORE and AFTER share a run"),
            (("default-2", "default-1,default-2,default-3"), "BEFORE and AFTER share a run"),
            (("default-1", "copy"), f"share a run ({FIRST})"),
            (("cut", "ctas8", "copy"), "share a run"),
            (("unnamed", "copied"), "share a run: unnamed.jsonl and copied.jsonl"),
            (("unnamed,copied", "unnamed-other"), "would count as two"),
        ],
    )
    def test_sides_that_cannot_be_compared(self, cclmark, inputs, sides, said):
        def name_of(word):
            return f"{word}.jsonl" if f"{word}.jsonl" in inputs else run(word)

        named = [",".join(map(name_of, side.split(","))) for side in sides]
        assert said in self.refused(cclmark, *named, "--fail-if-slower", "5%")

    def test_runs_without_an_id_are_told_apart_by_their_content(self, cclmark, inputs):
        assert "26 cases" in cclmark("compare", "unnamed.jsonl", "unnamed-other.jsonl").out

    def test_runs_that_share_no_size(self, cclmark, tmp_path):
        before = imported(cclmark, tmp_path, (128, 256), 20.0)
        after = imported(cclmark, tmp_path, (512, 1024, 2048, 4096, 8192), 30.0)
        for more in ((), ("--fail-if-slower", "5%", "--allow-inconclusive")):
            message = self.refused(cclmark, before, after, *more)
            assert "have no measured case in common: sizes of all_reduce float3" in message
            assert (
                "2 ranks: 128 B and 256 B before, 512 B to 8 KiB (5 sizes) after, no size in common"
            ) in message

    def test_outputs_that_were_all_wrong(self, cclmark, tmp_path):
        def wrong(entry):
            if entry["type"] == "case":
                entry["status"] = "wrong"

        after = changed(tmp_path, "default-2", wrong)
        rows = "all_reduce float32 sum out-of-place · nccl, 4 ranks: 8 B to 128 MiB (13 sizes); "
        for sides, name in (((run("default-1"), after), after), ((after, run("ctas8")), after)):
            message = cclmark("compare", *sides, code=1).message
            assert f"the outputs of {name} were wrong in 26 cases, and no other case" in message
            assert rows in message
            assert "Cases are the same" not in message

        def wrong_or_gone(entry):
            size = entry.get("case", {}).get("size_bytes", 8)
            return wrong(entry) if size == 8 else False

        (tmp_path / "few").mkdir()
        few = changed(tmp_path / "few", "default-2", wrong_or_gone)
        message = cclmark(
            "compare", run("default-1"), few, "--fail-if-slower", "5%", code=1
        ).message
        assert "were wrong in 2 cases" in message
        assert "Besides: sizes of all_reduce float32 sum out-of-place · nccl, 4 ranks" in message


def test_a_name_with_a_comma_is_a_name(cclmark, tmp_path):
    odd = tmp_path / "a,b.jsonl"
    shutil.copy(run("ctas8"), odd)
    assert "8 faster" in cclmark("compare", str(odd), run("default-1")).out
