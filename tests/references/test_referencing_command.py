"""``cclmark references``: what there is, whether a journal is as it should be, one's own."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

from places import H200X4
from samples import edited

SWEEP, COPIES = str(H200X4 / "all_reduce.jsonl"), str(H200X4 / "p2p.jsonl")
HOST = ("all_reduce", "--devices", "host:2", "-b", "1M", "-e", "4M", "-n", "5", "-w", "2")


@pytest.fixture
def refs(cclmark, tmp_path):
    """Runs the program with a data home of its own."""

    def run(*arguments, **options):
        env = {"XDG_DATA_HOME": str(tmp_path / "data"), **options.pop("env", {})}
        return cclmark(*arguments, env=env, **options)

    return run


def changed(tmp_path, change, journal=SWEEP, *, name="changed"):
    """A copy of a journal that ``change`` has altered, see ``edited``."""
    file = tmp_path / f"{name}.jsonl"
    file.write_bytes(edited(Path(journal).read_bytes(), change))
    return str(file)


def own_file(tmp_path):
    (file,) = (tmp_path / "data" / "cclmark" / "references").iterdir()
    return file


class TestListing:
    def test_sources_are_named_with_what_they_are_about(self, refs):
        told = refs("references").out
        assert "flagcx-perf: FlagCX's perf program on pairs of A800, C550 and P800" in told
        assert "8 × PPU, 4 × PPU: p2p; 2008 figures" in told
        assert "https://www.nvidia.com/en-us/on-demand/session/gtc24-s62129/" in told

    def test_figures_of_a_device(self, refs):
        told = refs("references", "--device", "NVIDIA A800-SXM4-80GB").out
        assert re.search("1 GiB +7598.0 +141.313 +141.313", told)
        assert told.count("2 × A800, FlagCX test_allreduce") == 1
        assert "2 × C550, FlagCX" not in told
        told = refs("references", "--operation", "p2p", "--device", "ppu").out
        assert told.count("2 GiB ·") == 28
        assert re.search(" 2 +24 +94.275 GB/s +90.1 +96.31", told)

    def test_exports(self, refs, tmp_path):
        told = refs("references", "--source", "h200x8-nccl", "--format", "csv").out
        rows = list(csv.DictReader(io.StringIO(told)))
        assert len(rows) == 9
        assert rows[-2]["busbw_gbps"] == "482.26"
        assert {row["devices"] for row in rows} == {"8 x H200"}
        file = tmp_path / "all.json"
        assert refs("references", "--format", "json", "-O", str(file)).out == ""
        document = json.loads(file.read_text())
        assert len(document["figures"]) > 2000
        untold = [one for one in document["figures"] if one["source"] == "nvidia-gtc24"]
        assert {one["hosts"] for one in untold} == {1, None}
        assert untold[0]["size_bytes"] is None
        assert untold[0]["devices"] == [{"kind": "unknown", "count": None}]
        assert {one["source"] for one in document["figures"]} == {
            one["name"] for one in document["sources"]
        }
        told = refs("references", "--device", "MI300X", "--format", "markdown").out
        assert "| 4 GiB | 312.91 |" in told

    def test_what_there_is_not(self, refs):
        message = refs("references", "--device", "H300", code=2).message
        assert "no reference of 'H300': did you mean 'H200'?" in message
        assert (
            "did you mean 'all_reduce'?"
            in refs("references", "--operation", "allreduce", code=2).message
        )
        refs("references", "--source", "nothing", code=2)
        assert (
            "after check" in refs("references", "--device", "H200", "check", SWEEP, code=2).message
        )


class TestChecking:
    def test_a_normal_machine_passes(self, refs):
        told = refs("references", "check", SWEEP, "--fail-below", "95%")
        assert "a: 4 × H200, nccl-tests 2.19.6, NCCL 2.28.9, multicast off" in told.out
        assert "28 cases: 28 with a reference, 10 judged, 0 of them below 95%" in told.out
        assert "18 not judged: smaller than 1 MiB" in told.out
        assert told.err == ""
        told = refs("references", "check", COPIES, "--fail-below", "98")
        assert "108 judged, 0 of them below 98%" in told.out

    def test_a_journal_that_was_cut_is_told(self, refs, tmp_path):
        cut = tmp_path / "cut.jsonl"
        cut.write_text("".join(Path(SWEEP).read_text().splitlines(keepends=True)[:25]))
        told = refs("references", "check", "cut.jsonl", "--fail-below", "90%")
        message = "cclmark: cut.jsonl: the end of the run is missing; 24 of 28 results are there\n"
        assert told.err == message

    def test_a_slow_one_fails(self, refs, tmp_path):
        """The same run with times that are twice as long."""

        def slower(entry):
            if entry.get("summary"):
                entry["summary"]["time_s"] *= 2
                entry["summary"]["busbw_bytes_per_s"] /= 2

        slow = changed(tmp_path, slower)
        told = refs("references", "check", slow, "--fail-below", "90%", code=1)
        assert "10 below 90% of their reference, the worst all_reduce 2 MiB" in told.err
        assert told.out.count("  low") == 10
        assert refs("references", "check", slow).out.count("  low") == 10
        told = refs("references", "check", slow, "--format", "markdown").out
        assert told.count("| low |") == 10
        assert "<details>" not in told
        told = refs("references", "check", slow, "--fail-below", "90%", "-b", "8", code=1)
        assert "28 below 90%" in told.err

    def test_small_messages_are_judged_nowhere(self, refs, tmp_path):
        """Neither here nor under a table or in a report: one rule."""
        changed(tmp_path, lambda one: one.get("case", {}).get("size_bytes", 0) <= 512, name="small")
        told = refs("references", "check", "small.jsonl").out
        assert "0 judged" in told
        assert "not judged: smaller than 1 MiB" in told
        told = refs("export", "small.jsonl", "--format", "table").out
        assert not re.search("(low|normal|high): ", told)
        assert re.search(r"for comparison: \d+% .*; not judged: smaller than 1 MiB\)", told)
        refs("report", "small.jsonl", "-o", "small.html")
        page = (tmp_path / "small.html").read_text()
        assert "GB/s bus bandwidth" not in page
        assert "all_reduce of 8 B takes 9.38 µs." in page

    def test_for_a_program(self, refs):
        document = json.loads(refs("references", "check", SWEEP, "--format", "json").out)
        assert len(document["cases"]) == 28
        last = document["cases"][-1]
        assert last["judged"]
        assert last["reference"]["source"] == "nccl-tests-h200x4-rounds"
        share = last["bytes_per_s"] / last["reference"]["bytes_per_s"]
        assert last["reference"]["share"] == pytest.approx(share)
        told = refs("references", "check", COPIES, "--format", "csv").out
        rows = list(csv.DictReader(io.StringIO(told)))
        assert len(rows) == 144
        assert {row["judged"] for row in rows} == {"0", "1"}
        told = refs("references", "check", SWEEP, "--format", "markdown").out
        assert told.count("<details><summary>all_reduce float32 sum") == 2

    def test_wrong_data_fails(self, refs, tmp_path):
        wrong = changed(
            tmp_path, lambda one: one.update(status="wrong") if one.get("index") == 0 else None
        )
        told = refs("references", "check", wrong, "--fail-below", "1%", code=1)
        assert "1 without valid figures" in told.err
        assert "wrong data" in told.out

    def test_what_cannot_be_judged_does_not_pass(self, refs):
        there = str(H200X4 / "two_hosts.jsonl")
        assert "0 with a reference" in refs("references", "check", there).out
        message = refs("references", "check", there, "--fail-below", "90%", code=2).message
        assert "no result can be judged: without a reference" in message
        assert "references add" in message

    def test_bad_input(self, refs, tmp_path):
        empty = tmp_path / "empty.jsonl"
        empty.write_text(Path(SWEEP).read_text().splitlines()[0] + "\n")
        for command, said in (
            (("check", "empty.jsonl"), "holds no results"),
            (("check", "nothing.jsonl"), "cannot read nothing.jsonl"),
            (("check", SWEEP, "-b", "x"), "'--begin': cannot read"),
            (("check", SWEEP, "--fail-below=0%"), "the share must be above 0"),
            (("add", "empty.jsonl", "--name", "x"), "contains no figures"),
            (("add", "nothing.jsonl", "--name", "x"), "cannot read nothing.jsonl"),
        ):
            assert said in refs("references", *command, code=2).message
        assert not (tmp_path / "data").exists()

    def test_a_barrier_has_no_reference(self, refs, cclmark):
        journal = str(cclmark("barrier", "--devices", "host:2", "-n", "3", "-w", "1").journal_path)
        for more in ((), ("--fail-below", "90%")):
            message = refs("references", "check", journal, *more, code=2).message
            assert "holds only barriers, which move no data and have no" in message


class TestOnesOwn:
    def test_a_machine_that_one_accepted_is_what_the_next_run_is_held_against(self, refs, tmp_path):
        journal = str(refs(*HOST).journal_path)
        told = refs("references", "add", journal, "--name", "our rack, accepted 2026-11", "--force")
        file = own_file(tmp_path)
        assert told.out == (
            f"{file}: 6 figures of 'our rack, accepted 2026-11', used from now on\n"
        )
        assert file.name == "our-rack-accepted-2026-11.toml"
        checked = refs("references", "check", journal, "--fail-below", "99.9%")
        assert 'a: "our rack, accepted 2026-11", 2 × ' in checked.out
        assert "6 judged, 0 of them below 99.9%; shares from 100% to 100%" in checked.out
        again = refs(*HOST, "--references").out
        assert len(re.findall(r"\d% a", again)) == 6
        assert 'a: "our rack, accepted 2026-11"' in again
        # On a busy machine one run may be more than ten times as fast as the other.
        share = r"(normal: all_reduce|all_reduce is (low|high):) (>999|\d+)% of the reference"
        assert re.search(share, again)
        # Without an option the peak alone is compared.
        peak = refs(*HOST).out
        assert re.search(r'% of the reference.* \("our rack, accepted 2026-11", 2 × ', peak)
        assert "of ref" not in peak.replace("of the reference", "")
        markdown = refs(*HOST, "--references", "--format", "markdown").out
        assert markdown.count("place of ref |") == 2
        listed = refs("references", "--source", file.stem).out
        assert "our-rack-accepted-2026-11: our rack, accepted 2026-11" in listed

    def test_times_of_the_device_are_compared_with_each_other(self, refs, tmp_path):
        """Launches cost 1.2 to 1.6 times as much there, and hide what the device needs."""
        own = H200X4.parent / "h200x2" / "all_reduce.jsonl"
        # The cost of one of its calls varies by more than 10 %, no time of the device does.
        assert refs("references", "add", str(own), "--name", "own").err == ""
        assert "busbw_gbps    device_us" in own_file(tmp_path).read_text()
        assert "device µs" in refs("references", "--source", "own").out
        told = refs("references", "check", str(own), "--fail-below", "99.9%").out
        assert re.search(r"(?m)^ +8 B +5\.77 +0\.00 +5\.774 µs +100\.0% a$", told)
        assert "30 judged, 0 of them below 99.9%; shares from 100% to 100%" in told
        assert "  30 by the time of the device, without launches" in told

        def slower(entry):
            if "device" in entry:
                summary = entry["device"]["summary"]
                for name in ("algbw_bytes_per_s", "busbw_bytes_per_s"):
                    summary[name] /= 1.2
                summary["time_s"] *= 1.2

        slow = changed(tmp_path, slower, own)
        told = refs("references", "check", slow, "--fail-below", "90%", code=1)
        assert "18 of them below 90%; shares from 83% to 100%" in told.out
        rows = csv.DictReader(io.StringIO(refs("references", "check", slow, "--format", "csv").out))
        assert {row["by_device"] for row in rows} == {"1"}
        # What the user asks for counts.
        told = refs("references", "check", slow, "--fail-below", "90%", "-b", "1M").out
        assert "12 judged, 0 of them below 90%" in told

    def test_calls_are_compared_with_calls_where_a_reference_has_no_time_of_the_device(
        self, refs, tmp_path
    ):
        own = H200X4.parent / "h200x2" / "all_reduce.jsonl"
        refs("references", "add", str(own), "--name", "own")
        file = own_file(tmp_path)
        text = re.sub(r"(?m)^( *\d+ +[\d.]+ +[\d.]+) +[\d.]+$", r"\1", file.read_text())
        file.write_text(text.replace("    device_us", ""))
        told = refs("references", "check", str(own), "-b", "8").out
        assert re.search(r"(?m)^ +8 B +8\.66 +0\.00 +8\.659 µs +100\.0% a$", told)
        assert "30 judged, 0 of them below 90%; shares from 100% to 100%" in told
        assert "by the time of the device" not in told

    def test_elsewhere(self, refs, tmp_path):
        there = tmp_path / "shared"
        add = ("references", "add", SWEEP, "--force", "--references-dir", str(there), "--name")
        told = refs(*add, "x")
        assert "add it to CCLMARK_REFERENCES" in told.err
        env = {"CCLMARK_REFERENCES": str(there)}
        assert '"x", 4 × H200' in refs("references", "check", SWEEP, env=env).out
        assert '"x"' not in refs("references", "check", SWEEP).out
        assert "CCLMARK_REFERENCES" not in refs(*add, "y", env=env).err

    def test_what_a_journal_lacks_is_told(self, refs, tmp_path):
        cut = tmp_path / "cut.jsonl"
        text = "".join(Path(SWEEP).read_text().splitlines(keepends=True)[:6])
        cut.write_text(text)
        told = refs("references", "add", "cut.jsonl", "--name", "cut", "--force")
        assert told.err.splitlines()[0] == (
            "cclmark: cut.jsonl: the end of the run is missing; 5 of 28 results are there: only "
            "these results are a reference"
        )
        assert "5 figures of 'cut'" in told.out

    def test_figures_that_are_noise_are_left_out_and_named(self, refs, tmp_path):
        """Three of the sweep vary by more than 10 %; here one more did not converge."""
        cases = []

        def change(entry):
            if entry["type"] == "case":
                cases.append(entry)
                entry["converged"] = entry["index"] != 27
            if entry.get("index") == 26:
                del entry["verification"]

        changed(tmp_path, change, name="noisy")
        assert sum(one["summary"]["cv"] > 0.1 for one in cases) == 3
        add = ("references", "add", "noisy.jsonl", "--name", "x")
        told = refs(*add, code=1)
        assert "23 figures of 'x'" in told.out
        head, *named = told.err.splitlines()
        assert head == (
            "cclmark: noisy.jsonl: 5 of 28 figures are not good enough (3 with a spread above 10%, "
            "1 not verified, 1 did not converge): left out. To take them: cclmark references "
            "remove x, then add --force"
        )
        assert len(named) == 5
        assert named[-2].endswith(": not verified")
        assert named[-1].endswith(": did not converge")
        text = own_file(tmp_path).read_text()
        assert str(cases[-1]["case"]["size_bytes"]) not in text

        refs("references", "remove", "x")
        told = refs(*add, "--force")
        assert "28 figures of 'x'" in told.out
        assert told.err.splitlines()[1:] == named
        assert "taken with --force" in told.err
        assert "Taken with --force: 5 of 28 figures are not good enough" in refs("references").out

    def test_a_journal_without_a_figure_that_is_good_enough(self, refs, tmp_path):
        journal = str(refs(*HOST, "-c", "0").journal_path)
        message = refs("references", "add", journal, "--name", "x", code=2).message
        assert "no figure can be a reference: 6 of 6 figures are not good enough" in message
        assert "6 not verified" in message
        assert not (tmp_path / "data").exists()

    def test_copies_whose_times_vary(self, refs, tmp_path):
        def varied(entry):
            if entry.get("index") == 0:
                for row in entry["samples"]["device_s"][1::2]:
                    row[:] = [2 * time_s for time_s in row]

        copies = changed(tmp_path, varied, COPIES)
        told = refs("references", "add", copies, "--name", "copies", code=1)
        assert "1 of 144 figures are not good enough (1 with a spread above 10%)" in told.err

    def test_one_that_is_removed_is_used_no_longer(self, refs, tmp_path):
        for name in ("our rack", "our other rack"):
            refs("references", "add", SWEEP, "--name", name, "--force")
        told = refs("references", "remove", "our-rack").out
        home = tmp_path / "data" / "cclmark" / "references"
        assert told == f"{home / 'our-rack.toml'}: removed\n"
        assert [file.name for file in home.iterdir()] == ["our-other-rack.toml"]
        message = refs("references", "remove", "our other rak", code=2).message
        assert "is 'our other rak': did you mean 'our other rack'?" in message
        assert message.endswith("Choose from our-other-rack.")
        refs("references", "remove", "our other rack")
        assert list(home.iterdir()) == []
        assert "our other rack" not in refs("references", "check", SWEEP).out

    def test_what_cannot_be_removed(self, refs, tmp_path):
        remove = ("references", "remove")
        assert "no references of your own in" in refs(*remove, "x", code=2).message
        assert "'pccl-ppu' ships with cclmark" in refs(*remove, "pccl-ppu", code=2).message
        there = tmp_path / "team"
        refs("references", "add", SWEEP, "--name", "x", "--force", "--references-dir", str(there))
        env = {"CCLMARK_REFERENCES": str(there)}
        message = refs(*remove, "x", env=env, code=2).message
        assert f"'x' is in {there / 'x.toml'}, which CCLMARK_REFERENCES names" in message
        (there / "y.toml").write_text((there / "x.toml").read_text())
        (there / "z.toml").write_text("title = 3\n[[")
        for file in ("x", "y"):
            text = (there / f"{file}.toml").read_text().replace('"x"', '"ours"')
            (there / f"{file}.toml").write_text(text)
        own = (*remove, "--references-dir", str(there))
        message = refs(*own, "ours", code=2).message
        assert "several references have the title 'ours': write one of x, y" in message
        for file in ("x", "y", "z"):
            refs(*own, file)
        assert list(there.iterdir()) == []

    def test_odd_names(self, refs, tmp_path):
        refs("references", "add", SWEEP, "--name", '../机架 "1" \\', "--force")
        assert own_file(tmp_path).name == "机架-1.toml"
        assert '机架 "1" \\' in refs("references", "check", SWEEP).out
        for name, why in (
            ("  ", "is empty"),
            ("a\nb", "must be printable"),
            ("\x1b[2J", "must be printable, and '\\x1b[2J' is not"),
        ):
            assert (
                f"--name {why}" in refs("references", "add", SWEEP, "--name", name, code=2).message
            )

    def test_a_place_that_cannot_be_written(self, refs, tmp_path):
        (tmp_path / "file").touch()
        add = ("references", "add", SWEEP, "--name", "x", "--force", "--references-dir")
        for place in (tmp_path / "file", tmp_path / "file" / "dir"):
            message = refs(*add, str(place), code=2).message
            assert f"cannot create {place}: " in message
            assert "Choose another place with --references-dir DIR" in message
        refs(*add, str(tmp_path / "there"))
        message = refs(*add, str(tmp_path / "there"), code=2).message
        assert "already exists: use another --name, or cclmark references remove x" in message


class TestBrokenFiles:
    @pytest.fixture
    def broken(self, tmp_path):
        home = tmp_path / "data" / "cclmark" / "references"
        home.mkdir(parents=True)
        (home / "mine.toml").write_text('title = "x"\n[[series]]\ndevice = "4 x H200"\n')
        return home / "mine.toml"

    def test_commands_about_references_say_what_is_wrong(self, refs, broken):
        for command in (("references",), ("references", "check", SWEEP), (*HOST, "--references")):
            message = refs(*command, code=2).message
            assert f"{broken}: series 1: unknown key 'device': did you mean 'devices'?" in message

    def test_a_measurement_does_without(self, refs, broken):
        told = refs(*HOST)
        assert f"your references are not used: {broken}" in told.err
        assert "6 of 6 cases checked, 0 wrong" in told.out


def test_other_formats_have_no_room_for_shares(refs, tmp_path):
    message = refs(*HOST, "--references", "--format", "csv", code=2).message
    assert "--references requires --format table or markdown" in message
    assert not (tmp_path / "cclmark-runs").exists() or not any(
        (tmp_path / "cclmark-runs").iterdir()
    )
