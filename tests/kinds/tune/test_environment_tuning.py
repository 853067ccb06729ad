"""Tuning of simulated libraries whose times follow from the variables of their processes alone."""

import re

import pytest
from tunings import KIB, MIB, case_of, request_of

from cclmark.journal.schema import Explanation, Summary
from cclmark.kinds.experiment.measured_trials import EndedError, TrialCosts, TrialTimes
from cclmark.kinds.experiment.result import TrialResult
from cclmark.kinds.tune.environment_search import EnvironmentTarget, candidates_of
from cclmark.kinds.tune.tuning import ENVIRONMENT_FILE, EnvironmentTuning
from cclmark.launch.launching import starts_of
from cclmark.launch.request import Outcome
from cclmark.work.variants import COMMUNICATOR, PROCESS
from commands import completed
from simulated_trials import SimulatedTrials, text_of

SIZES = [KIB << (2 * step) for step in range(10)]  # 1 KiB to 256 MiB
WELL = Outcome(0)


class Simulated(SimulatedTrials):
    """``time_of``: seconds by variables, operation and size. ``slows``: a factor, by trial."""

    def __init__(self, time_of, *, seed=0, fails=lambda trial: False, slows=lambda trial: 1):
        super().__init__(seed=seed)
        self._time_of, self._fails, self._slows = time_of, fails, slows

    def _time(self, trial):
        if trial.variant.assignments and self._fails(trial):
            return None
        variables = {one.name: one.value for one in trial.variant.assignments}
        time_s = self._time_of(variables, trial.case.operation, trial.case.size_bytes)
        return time_s * self.noise() * self._slows(trial)

    def observe(self, trials):
        return {one: Explanation(0, kernel="copies") for one in trials}


def tuned(directory, simulated, *, environment=None, only=(), expected=WELL, **options):
    """The result, and its text where the run ended well."""
    environment = environment or {}
    cases = {"all_reduce": [case_of("all_reduce", size, "shm") for size in SIZES]}
    request = request_of(directory / "t", cases, proof_rounds=7, **options)
    target = EnvironmentTarget(
        "shm 1, 2 ranks",
        candidates_of("shm", "", ["all_reduce"], environment, only=only),
        {name: value for name, value in environment.items() if name not in only},
        {name: environment[name] for name in only if name in environment},
    )
    tuning = EnvironmentTuning(lambda _: target, request, simulated, lambda text: None)
    result, outcome = tuning.run()
    assert outcome == expected
    return result, text_of(result) if expected == WELL else ""


INLINE, STREAM = "CCLMARK_SHM_INLINE_BYTES", "CCLMARK_SHM_STREAM_BYTES"


def flat(variables, _operation, size):
    """Small messages in announcements gain; past the cache has no effect."""
    limit = int(variables.get(INLINE, 2048))
    latency_s = 1e-6 if size <= limit else 2e-6
    return latency_s + limit * 1e-11 + size / 1e10


def test_a_gain_is_deployed_in_fresh_processes(tmp_path):
    simulated = Simulated(flat)
    result, text = tuned(tmp_path, simulated)
    assert set(result.variables) == {INLINE}
    assert 4096 <= int(result.variables[INLINE]) <= 16384
    file = tmp_path / "t" / ENVIRONMENT_FILE
    assert result.files == [str(file)]
    done = completed(["sh", "-c", f'. "{file}"; echo ${INLINE}'], check=True)
    assert done.stdout.strip() == result.variables[INLINE]
    scopes = {
        (trial.stage, one.scope) for trial in simulated.seen for one in trial.variant.assignments
    }
    assert scopes == {("search", COMMUNICATOR), ("proof", PROCESS)}
    assert "  default 2048; costs host memory" in text
    assert f"use: . {file}" in text
    assert text.count("copies") == 2 * len(SIZES)


def test_what_replaces_a_variable_of_the_environment_is_compared_with_it(tmp_path):
    def slow(variables, _operation, size):
        return 1e-6 * (4 if int(variables.get(INLINE, 65536)) > 16384 else 1) + size / 1e10

    _, text = tuned(tmp_path, Simulated(slow), environment={INLINE: "65536"}, only=[INLINE])
    assert "  compared with 65536; default 2048; " in text
    assert f"compared with {INLINE}=65536 of the environment, not with the default" in text
    assert f"unset {INLINE} and repeat the command" in text
    comments = (tmp_path / "t" / ENVIRONMENT_FILE).read_text()
    assert f"# compared with {INLINE}=65536 in the environment, not with the defaults" in comments


class LaunchBound(Simulated):
    """Launches determine the time of a call up to 1 MiB: a new environment changes its cost by
    ``factor``. The times of the simulation are those of the device.
    """

    def __init__(self, *, factor=1.0):
        super().__init__(flat)
        self._factor = factor

    def figures(self, trial):
        device_s, size = self._times[trial], trial.case.size_bytes
        if size > MIB:
            return TrialTimes(device_s)
        call_s = 200e-6 * (self._factor if trial.variant.assignments else 1.0)
        return TrialTimes(call_s * self.noise(), device_s)


@pytest.mark.parametrize("factor", [1.01, 1.04])
def test_an_environment_whose_calls_cost_more_is_not_deployed(tmp_path, factor):
    """Small messages gain on the device, and a program that launches them loses."""
    result, text = tuned(tmp_path, LaunchBound(factor=factor))
    is_costly = factor > 1.02
    assert (result.proof.is_proven, bool(result.files)) == (not is_costly, not is_costly)
    if is_costly:
        assert "but a call costs " in result.proof.objection
        assert "because launches determine its time" in result.proof.objection
        assert "not proven: the device needs " in text


def test_calls_that_may_cost_more_by_chance_are_reported(tmp_path):
    class TwoLevels(LaunchBound):
        """Launches take 50 % longer in some processes, and so they did in few of the default."""

        def figures(self, trial):
            found = super().figures(trial)
            slow = trial.round in ((0, 1, 2, 3) if trial.variant.assignments else (4, 5, 6))
            if found.device_s is None or not slow or trial.variant.control:
                return found
            return TrialTimes(found.call_s * 1.5, found.device_s)

    result, text = tuned(tmp_path, TwoLevels())
    assert result.proof.call.low < 1
    assert result.proof.call.ratio > 1.02
    assert result.files
    assert re.search(r"determine its time, a call costs [0-9.]+% more time than the default", text)
    assert "which may be noise" in text


def test_what_fails_is_reported_and_in_the_proof_not_deployed(tmp_path):
    def fails(trial):
        return trial.stage == "proof" and trial.case.size_bytes == MIB

    simulated = Simulated(flat, fails=fails)
    result, text = tuned(tmp_path, simulated)
    assert (result.proof.failed, result.files) == ([("all_reduce", MIB)], [])
    assert "failed at 1 MiB" in text
    # It does not help to repeat that.
    assert {trial.round for trial in simulated.seen if trial.stage == "proof"} == {0}
    simulated = Simulated(flat, fails=lambda trial: trial.variant.value_of(STREAM) == "131072")
    result, text = tuned(tmp_path / "search", simulated)
    assert result.files
    assert f"failed     {STREAM}=131072" in text


class Timed(Simulated):
    """A clock: a set of processes takes 2 s, a communicator 1 s and a trial 0.2 s."""

    def __init__(self, monkeypatch, *, is_known=True, process_s=2.0, communicator_s=1.0):
        super().__init__(flat)
        self.now_s = 0.0
        self._is_known = is_known
        self._process_s, self._communicator_s = process_s, communicator_s
        self._costs = TrialCosts()
        monkeypatch.setattr("cclmark.kinds.tune.tuning.time.monotonic", lambda: self.now_s)

    def expected_s(self, trials):
        cases = [one.case for one in trials]
        return self._costs.expected_s(cases, starts_of(trials)) if self._is_known else None

    def measure(self, trials):
        starts = starts_of(trials)
        own_s = self._communicator_s * starts.communicators
        creation_s = 0.95 * own_s  # ranks report most of it
        elapsed_s = self._process_s * starts.processes + own_s + 0.2 * len(trials)
        self.now_s += elapsed_s
        times = Summary("host", 1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 10, 1e9, 1e9)
        results = [TrialResult(0, one, "ok", duration_s=0.2, summary=times) for one in trials]
        self._costs.add_round(elapsed_s, results, starts, creation_s)
        return super().measure(trials)


@pytest.mark.parametrize("budget_s", [300, 800])
@pytest.mark.parametrize("times_s", [(8.0, 0.1), (0.5, 2.0)], ids=str)
def test_search_and_proof_fit_into_the_budget(tmp_path, monkeypatch, budget_s, times_s):
    """The proof has seven rounds of three sets of processes and 30 trials."""
    process_s, communicator_s = times_s
    simulated = Timed(monkeypatch, process_s=process_s, communicator_s=communicator_s)
    result, _ = tuned(tmp_path, simulated, budget_s=budget_s)
    round_s = 3 * sum(times_s) + 6
    assert result.proof_s == pytest.approx(7 * round_s)
    assert result.search_s + result.proof_s <= budget_s
    # What is left is less than a round of the search, and the observations.
    if not result.is_search_complete:
        most_s = process_s + 14 * communicator_s + 28
        assert result.search_s > budget_s - 8 * round_s - most_s


def test_the_search_has_a_share_of_a_budget_that_is_short_or_of_unknown_use(tmp_path, monkeypatch):
    result, _ = tuned(tmp_path / "short", Timed(monkeypatch), budget_s=130)
    # The first round: 30 % have no room for another one.
    assert result.search_s == pytest.approx(44.0)
    assert not result.is_search_complete
    result, _ = tuned(tmp_path / "unknown", Timed(monkeypatch, is_known=False), budget_s=100)
    assert 62 < result.search_s < 62 + 44  # a round of the search takes 44 s


def test_a_failure_of_the_default_ends_the_run(tmp_path, monkeypatch):
    died = Outcome(4, "rank 1 died")

    def fail(trials):
        raise EndedError(died)

    simulated = Simulated(flat)
    monkeypatch.setattr(simulated, "measure", fail)
    tuned(tmp_path, simulated, expected=died)
    assert not (tmp_path / "t").exists()
