"""Tuning of simulated devices, whose times follow from the deployed files alone."""

import re
from functools import cache
from pathlib import Path

import msgspec
import pytest
from tunings import KIB, MIB, case_of, is_tuned, request_of

from cclmark.analysis.ratio import RatioEstimate
from cclmark.base.errors import UsageError
from cclmark.journal.schema import Explanation
from cclmark.kinds.experiment.measured_trials import TrialTimes
from cclmark.kinds.tune import open_mpi_rules, table_file
from cclmark.kinds.tune.algorithm_rule import AlgorithmRule
from cclmark.kinds.tune.plan import Choice, OperationPlan
from cclmark.kinds.tune.request import _with_middles, check_directory
from cclmark.kinds.tune.result import OperationResult, Proof, Proven, RulesResult
from cclmark.kinds.tune.search import Rule
from cclmark.kinds.tune.targets import RULES_FILE, TABLE_FILE, NcclTarget, OpenMpiTarget
from cclmark.kinds.tune.tuning import ENVIRONMENT_FILE, Budget, RulesTuning, measure_sm_cost
from cclmark.launch.request import Outcome
from cclmark.work.variants import REGISTRATION
from commands import completed
from simulated_trials import SimulatedTrials, stored_document, text_of

_read_table = cache(table_file.read)  # most trials have the same one

SIZES = [KIB << (2 * step) for step in range(11)]  # 1 KiB to 1 GiB
CONDITIONS = ("2.28.9", "NVIDIA H200", 18)


def usual_choice(size: int) -> tuple[str, str, int]:
    """What the library runs with communicators of 24 channels."""
    if size < MIB:
        return "ring", "ll", max(1, min(24, size // (16 * KIB)))
    return "ring", "simple", 24


def time_of(choice: tuple[str, str, int], size: int) -> float:
    """Seconds. More channels are faster for large messages, and slower for small ones."""
    algorithm, protocol, channels = choice
    rates = {"ll": 60e9, "ll128": 240e9, "simple": 300e9}
    latency_s = {"ll": 6e-6, "ll128": 10e-6, "simple": 14e-6}[protocol]
    rate = rates[protocol] * (0.75 + 0.25 * min(channels, 48) / 48)
    if algorithm == "tree":
        latency_s, rate = latency_s * 1.3, rate * 0.9
    return latency_s + channels * 0.05e-6 + size / rate


class Simulated(SimulatedTrials):
    """``responds`` is False where nothing changes a time. ``slows``: returns a factor of the time
    of a trial, None where it fails.
    """

    def __init__(self, *, responds=True, seed=0, fails=(), slows=lambda simulated, trial: 1):
        super().__init__(seed=seed)
        self._responds, self._fails, self._slows = responds, fails, slows

    def choice(self, trial):
        """What runs, from the variables and the file of the table."""
        variables = {one.name: one.value for one in trial.variant.assignments}
        size = trial.case.size_bytes
        assert not {"NCCL_MIN_CTAS", "config.minCTAs"} <= set(variables)
        # NCCL refuses a minimum without a maximum.
        assert ("config.minCTAs" in variables) == ("config.maxCTAs" in variables)
        widened = "NCCL_MIN_CTAS" in variables or "config.minCTAs" in variables
        if path := variables.get("CCLMARK_TUNER_TABLE"):
            assert Path(path).is_absolute()
            assert "NCCL_TUNER_PLUGIN" in variables
            table = _read_table(Path(path).read_text(), path)
            if "CCLMARK_TUNER_ANYWHERE" not in variables:
                assert (table.library_version, table.device, table.nvlinks) == CONDITIONS
            for rule in rules_at(table, size):
                most = 64 if widened else 24
                return rule.algorithm, rule.protocol, min(rule.channels or most, most)
        algorithm, protocol, channels = usual_choice(size)
        return algorithm, protocol, 64 if widened else channels

    def _time(self, trial):
        choice, size = self.choice(trial), trial.case.size_bytes
        if choice[:2] in self._fails and not trial.variant.is_default:
            return None
        time_s = time_of(choice if self._responds else usual_choice(size), size)
        if trial.variant.value_of(REGISTRATION) == "symmetric" and self._responds:
            time_s *= 0.6 if size < MIB else 1.2
        factor = self._slows(self, trial)
        return factor and time_s * self.noise() * factor

    def observe(self, trials):
        found = {}
        for one in trials:
            algorithm, protocol, channels = self.choice(one)
            names = (algorithm, algorithm.upper(), protocol.upper())
            found[one] = Explanation(0, "plug-in", *names, channels)
        return found


def rules_at(table, size):
    return [one for one in table.rules if one.smallest_bytes <= size <= one.largest_bytes]


def tuned(directory, simulated, *, app_changes=False, **options):
    """The result, that of the operation, and the text."""
    target = NcclTarget("nccl", *CONDITIONS, 2, 24, "/plug-in.so", app_changes)
    cases = [case_of("all_reduce", size) for size in SIZES]
    options["proof_cases"] = {"all_reduce": _with_middles(cases)}
    request = request_of(directory / "tuned", {"all_reduce": cases}, **options)
    check_directory(directory / "tuned", resumes=False)
    tuning = RulesTuning(lambda _: target, request, simulated, lambda text: None)
    result, outcome = tuning.run()
    assert outcome == Outcome(0)
    return result, result.operations[0], text_of(result)


def table_in(directory):
    return table_file.read((directory / "tuned" / TABLE_FILE).read_text(), TABLE_FILE)


def proven_choices(one):
    return [one.choices[each.rule.variant] for each in (one.proof.proven if one.proof else ())]


def covered(one):
    proven = one.proof.proven
    return {size: each.rule for size in SIZES for each in proven if each.rule.covers(size)}


def test_a_gain_is_deployed_and_other_sizes_keep_what_ran(tmp_path):
    quoted = tmp_path / "it's here"
    result, one, text = tuned(quoted, Simulated())
    assert one.mean_gain > 1.04
    assert not one.harmed
    directory = quoted / "tuned"
    assert result.variables["NCCL_MIN_CTAS"] == "64"
    assert result.variables["CCLMARK_TUNER_TABLE"] == str((directory / TABLE_FILE).absolute())
    for size, rule in covered(one).items():
        choice = one.choices[rule.variant]
        ran = (choice.algorithm, choice.protocol, choice.channels or 64)
        assert time_of(ran, size) < 1.02 * time_of(usual_choice(size), size)
    assert max(SIZES) in covered(one)
    # All other sizes have the library's own choice, although communicators have more channels.
    for size in set(SIZES) - set(covered(one)):
        (rule,) = rules_at(table_in(quoted), size)
        assert (rule.algorithm, rule.protocol, rule.channels) == usual_choice(size)
    # What the proof has not loaded is not written.
    written_files = {one.name for one in directory.iterdir() if one.is_file()}
    assert written_files == {TABLE_FILE, ENVIRONMENT_FILE}
    assert (directory / "candidates").is_dir()  # which explain the result
    assert "geometric mean of the speed-ups" in text
    assert f". {directory / ENVIRONMENT_FILE}" in text
    script = f'. "{directory / ENVIRONMENT_FILE}"; echo "$CCLMARK_TUNER_TABLE"'
    done = completed(["sh", "-c", script], check=True)
    assert done.stdout.strip() == result.variables["CCLMARK_TUNER_TABLE"]


def test_nothing_beats_the_default(tmp_path):
    result, _, text = tuned(tmp_path, Simulated(responds=False))
    assert result.files == []
    assert text.count("nothing") == 1
    assert "  nothing beats the default\n" in text
    ended = [msgspec.structs.replace(one, is_search_complete=False) for one in result.operations]
    text_of_ended = text_of(msgspec.structs.replace(result, operations=ended))
    assert "  no gain was proven within the budget\n" in text_of_ended
    assert "nothing beats" not in text_of_ended
    assert ("no proof\n" in text) == (result.operations[0].proof is None)
    check_directory(tmp_path / "tuned", resumes=False)  # the command can be repeated


@pytest.mark.parametrize("harm", [1.10, None])
def test_an_artifact_that_harms_another_size_is_withdrawn(tmp_path, harm):
    def harmful(_simulated, trial):
        return harm if is_tuned(trial) and trial.case.size_bytes == KIB else 1

    result, one, text = tuned(tmp_path, Simulated(slows=harmful))
    assert (one.failed, set(one.harmed)) == (([], {KIB}) if harm else ([KIB], set()))
    assert result.files == []
    assert not (tmp_path / "tuned" / TABLE_FILE).exists()
    slower = "1 KiB has no rule and is slower with the artifact"
    assert (slower if harm else "the artifact failed at 1 KiB") in text
    assert "no artifact is written" in text
    assert "nothing beats the default" not in text


def harmed_by_channels(_simulated, trial):
    """More channels per communicator make messages of 1 KiB slower, whatever the table selects."""
    is_harmed = trial.stage == "proof" and trial.case.size_bytes == KIB
    return 1.05 if is_harmed and trial.variant.value_of("NCCL_MIN_CTAS") else 1


def fastest_with_most_channels(simulated, trial):
    """From 1 MiB on, more channels than usual are faster than all choices with fewer."""
    is_wide = simulated.choice(trial)[2] > 24 and trial.case.size_bytes >= MIB
    return harmed_by_channels(simulated, trial) * (0.8 if is_wide else 1)


HARM = "requires NCCL_MIN_CTAS=64, with which all_reduce of 1 KiB, without a rule"


@pytest.mark.parametrize(
    ("slows", "says"),
    [
        (harmed_by_channels, HARM),
        (fastest_with_most_channels, " is not used at 1 MiB: requires NCCL_MIN_CTAS=64"),
    ],
)
def test_rules_whose_variable_harms_another_size_are_dropped_and_the_others_deployed(
    tmp_path, slows, says
):
    result, one, text = tuned(tmp_path, Simulated(slows=slows))
    assert not one.harmed
    assert result.files
    assert "NCCL_MIN_CTAS" not in result.variables
    kept = [choice.channels for choice in proven_choices(one)]
    assert kept
    assert all(0 < channels <= 24 for channels in kept)
    assert all(rule.channels <= 24 for rule in table_in(tmp_path).rules)
    lost = [each.rule for each in one.proof.dropped if "NCCL_MIN_CTAS=64" in each.reason]
    assert {one.choices[rule.variant].channels for rule in lost}.isdisjoint(range(1, 25))
    assert says in text
    assert "no artifact is written" not in text
    if slows == harmed_by_channels:
        assert max(rule.high_bytes for rule in lost) == max(SIZES)
    else:
        # The best rules without the variable are proven instead; from 8 MiB on there is none.
        assert any(rule.covers(MIB) for rule in lost)
        assert MIB in covered(one)
        assert "the default stays from 8 MiB to " in text


def test_a_loss_that_is_allowed_drops_no_rule(tmp_path):
    result, one, _ = tuned(tmp_path, Simulated(slows=harmed_by_channels), largest_loss=0.08)
    assert result.variables["NCCL_MIN_CTAS"] == "64"
    assert one.outside[KIB].low > 1.02
    assert not any("NCCL_MIN_CTAS" in each.reason for each in one.proof.dropped)


def slow_in_its_first_proof(size_bytes):
    """The rule of one size is a loss in the first ten rounds that prove it."""

    def slows(simulated, trial):
        is_own = is_tuned(trial) and simulated.choice(trial) != usual_choice(size_bytes)
        is_slow = is_own and trial.round < 10 and trial.case.size_bytes == size_bytes
        return 30 if is_slow else 1

    return Simulated(slows=slows)


def test_only_sizes_that_lost_their_rule_are_measured_again(tmp_path):
    simulated = slow_in_its_first_proof(16 * MIB)
    result, one, _ = tuned(tmp_path, simulated)
    (lost,) = one.proof.dropped
    assert lost.rule.low_bytes == 16 * MIB
    assert one.proof.proven and result.files
    proofs = [trial for trial in simulated.seen if trial.stage == "proof"]
    assert len({trial.round for trial in proofs}) == 2 * 10
    again = {trial.case.size_bytes for trial in proofs if trial.round >= 10}
    assert again == {size for size in SIZES if lost.rule.covers(size)}
    # The others keep the rounds that they have.
    once = tuned(tmp_path / "once", Simulated())[1].proof.proven[-1]
    assert one.proof.proven[-1].by_size[max(SIZES)] == once.by_size[max(SIZES)]
    assert 16 * MIB in one.outside
    assert not one.unmeasured


def test_the_rules_that_are_left_after_the_last_proof_are_deployed(tmp_path, monkeypatch):
    monkeypatch.setattr("cclmark.kinds.tune.proving._MOST_PROOFS", 1)
    result, one, text = tuned(tmp_path, slow_in_its_first_proof(256 * MIB))
    assert [each.rule.low_bytes for each in one.proof.dropped] == [256 * MIB]
    assert result.files
    applies = rules_at(table_in(tmp_path), 256 * MIB)
    assert [(each.protocol, each.channels) for each in applies] == [("simple", 24)]
    assert one.unmeasured == [256 * MIB]
    assert "the default stays, but was not measured with these files, at 256 MiB" in text


class LaunchBound(Simulated):
    """Launches determine the cost of a call below 16 MiB: ``per_channel_s`` for each channel.

    The times of the simulation are those of the device. With more channels, calls of at most
    ``costly_bytes`` cost the host 20 % more.
    """

    def __init__(self, *, per_channel_s=0.0, costly_bytes=0):
        super().__init__()
        self._per_channel_s, self._costly_bytes = per_channel_s, costly_bytes

    def figures(self, trial):
        device_s, size = self._times[trial], trial.case.size_bytes
        if device_s is None or size >= 16 * MIB:
            return None if device_s is None else TrialTimes(device_s)
        launch_s = 80e-6 + self._per_channel_s * self.choice(trial)[2]
        call_s = max(device_s, launch_s * self._random.lognormvariate(0, 0.02))
        is_wide = any(one.name == "NCCL_MIN_CTAS" for one in trial.variant.assignments)
        costs = 1.2 if is_wide and size <= self._costly_bytes else 1.0
        return TrialTimes(call_s * costs, device_s)


def test_a_rule_whose_calls_cost_more_is_dropped_where_launches_determine_them(tmp_path):
    _, cheap, text = tuned(tmp_path / "cheap", LaunchBound())
    assert 4 * MIB in covered(cheap)
    assert "a call costs" not in text
    _, costly, _ = tuned(tmp_path / "costly", LaunchBound(per_channel_s=1e-6))
    assert 4 * MIB not in covered(costly)
    assert max(SIZES) in covered(costly)
    assert any("but a call costs" in each.reason for each in costly.proof.dropped)


def test_calls_that_cost_more_next_to_a_rule_withdraw_the_rules_that_cause_it(tmp_path):
    """Their device's time is the same, so that only the cost of a call shows the loss."""
    cheap, one, _ = tuned(tmp_path / "cheap", LaunchBound())
    lowest = min(each.rule.low_bytes for each in one.proof.proven)
    beside = max(size for size in one.calls_beside if size < lowest)
    assert "NCCL_MIN_CTAS" in cheap.variables
    costly, one, _ = tuned(tmp_path / "costly", LaunchBound(costly_bytes=beside))
    assert "NCCL_MIN_CTAS" not in costly.variables
    assert any("without a rule, takes more time" in each.reason for each in one.proof.dropped)


def test_what_did_not_run_or_fails_is_not_deployed(tmp_path):
    class Unavailable(Simulated):
        """The library refuses the choice of every table, and runs its own with more channels."""

        def choice(self, trial):
            channels = super().choice(trial)[2]
            usual = usual_choice(trial.case.size_bytes)
            return (*usual[:2], channels) if trial.variant.assignments else usual

    def proven(simulated, name):
        choices = proven_choices(tuned(tmp_path / name, simulated)[1])
        return {(each.algorithm, each.protocol) for each in choices}

    assert proven(Unavailable(), "unavailable") <= {("ring", "simple")}
    assert ("ring", "simple") not in proven(Simulated(fails={("ring", "simple")}), "failing")


def test_buffers_and_channels_are_of_the_program_where_it_may_change(tmp_path):
    """Registered buffers, and the communicator's options for channels instead of a variable."""
    simulated = Simulated()
    result, one, text = tuned(tmp_path, simulated, app_changes=True)
    choices = {size: one.choices[rule.variant] for size, rule in covered(one).items()}
    assert choices[16 * KIB].registration == "symmetric"
    assert choices[max(SIZES)].registration == ""
    assert "program change: input and output have to be in symmetric windows" in text
    assert "  backend.register_mem_pool(pool, symm=True)  # after the allocation\n" in text
    assert result.options == {"minCTAs": "64", "maxCTAs": "64"}
    assert set(result.variables) == {"NCCL_TUNER_PLUGIN", "CCLMARK_TUNER_TABLE"}
    assert not any(one.variant.value_of("NCCL_MIN_CTAS") for one in simulated.seen)
    proofs = [one.variant for one in simulated.seen if one.stage == "proof"]
    wide = [one for one in proofs if one.value_of("CCLMARK_TUNER_TABLE")]
    assert wide
    assert all(one.options == result.options for one in wide)
    assert "create the communicator with minCTAs=64 maxCTAs=64 in ncclConfig_t" in text
    assert "  options = torch.distributed.ProcessGroupNCCL.Options()\n" in text
    assert "  options.config.min_ctas = 64\n  options.config.max_ctas = 64\n" in text
    script = (tmp_path / "tuned" / ENVIRONMENT_FILE).read_text()
    assert "NCCL_MIN_CTAS" not in text + script
    assert "requires the option minCTAs=64 of the communicator" in script


@pytest.mark.parametrize(("version", "configured"), [("2.16.5", 1), ("2.18.5", 0)])
def test_a_library_without_the_options_is_tuned_by_the_variable(version, configured, tmp_path):
    conditions = ("rccl", version, "MI300X", None, 2, 24, "/plug-in.so", True)
    target = NcclTarget(*conditions, bool(configured))
    artifact = target.candidate(Choice("ring", "ll", 32), ["all_reduce"], tmp_path)
    assert not artifact.options
    assert artifact.process["NCCL_MIN_CTAS"] == "64"
    assert target.wide_settings == {"NCCL_MIN_CTAS": "64"}


def test_a_deadline_ends_the_search_with_the_reason(tmp_path):
    _, one, text = tuned(tmp_path, Simulated(), budget_s=0.0)
    assert not one.is_search_complete
    why = r"after \d+\.\d s, because the rest of the 0 s is for the proof"
    assert re.search(rf"the search ended {why}\n    more time may find more \(--budget\)", text)

    class Known:
        number = 0

        def expected_s(self, trials):
            return 2.0 if len(trials) == 1 else 1.5

    cases = [case_of("all_reduce", 64)]
    budget = Budget(Known(), 15.0, cases, 5)
    assert not budget.ends_search([None])
    assert budget.end_reason == ""
    tight = Budget(Known(), 10.0, cases, 5)
    tight._begin_s -= 1.4
    assert tight.ends_search([None])
    reason = "after 1.4 s, because its next round (about 2.0 s) and the proof (about 9.0 s) would "
    assert tight.end_reason == f"{reason}exceed the 10 s"


def test_a_directory_with_content_is_refused(tmp_path):
    (tmp_path / "something").touch()
    with pytest.raises(UsageError, match="is not empty"):
        check_directory(tmp_path, resumes=False)
    check_directory(tmp_path, resumes=True)
    with pytest.raises(UsageError, match="is not a directory"):
        check_directory(tmp_path / "something", resumes=True)


def test_open_mpi_is_tuned_by_its_rules_file(tmp_path):
    target, names = OpenMpiTarget("Open MPI v5.0.11", 2), ("recursive_doubling", "ring")
    choices = target.candidates("all_reduce").choices
    small, large = (number for number, one in choices.items() if one.name in names)
    rules = [Rule(KIB, 4 * KIB, small), Rule(MIB, 64 * MIB, large)]
    plan = OperationPlan("all_reduce", SIZES, {}, rules, choices)
    found = target.deployment([plan], tmp_path)
    assert found.process == {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_tuned_dynamic_rules_filename": str(tmp_path / RULES_FILE),
    }
    assert open_mpi_rules.read(found.files[RULES_FILE], "rules") == [
        AlgorithmRule("all_reduce", 2, *limits, algorithm)
        for limits, algorithm in zip(((KIB, 4 * KIB), (MIB, 64 * MIB)), names, strict=True)
    ]
    ring = target.candidate(choices[large], ["all_reduce", "barrier"], tmp_path).files["ring.rules"]
    assert open_mpi_rules.read(ring, "rules") == [AlgorithmRule("all_reduce", 2, 0, None, "ring")]


def test_without_a_product_the_reason_is_reported(tmp_path, monkeypatch):
    product = "cuBLASLt, which multiplies matrices on CUDA devices (pip install nvidia-cublas"
    message = f"rank 0 (cuda:0) failed\n  {product}\x1b), cannot be loaded\n  another line"
    monkeypatch.setattr(
        "cclmark.kinds.tune.tuning.measure_beside", lambda *_: ([], Outcome(3, message))
    )
    one = OperationResult(case_of("all_reduce", MIB), choices={1: Choice("ring", "simple", 2)})
    gain = RatioEstimate(-0.1, 0.01, 6, 0.001, 7)
    one.proof = Proof([Proven(Rule(0, MIB, 1), gain, 0.001, {MIB: gain})], [])
    result = RulesResult(7, operations=[one])
    cost = measure_sm_cost(None, {"all_reduce": [one.case]}, result, tmp_path, 64)
    result = msgspec.structs.replace(result, is_complete=True, sm_cost=cost)
    (finding,) = [one for one in stored_document(result).findings if one.id == "sm-cost"]
    assert finding.severity == "unknown"
    failed = f"rank 0 (cuda:0) failed: {product}\\x1b), cannot be loaded"
    assert finding.sentence == f"SM cost: not measured: {failed}"
