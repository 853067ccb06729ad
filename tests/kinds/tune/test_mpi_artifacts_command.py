"""Open MPI and MPICH follow the files that are written for them, in a program without cclmark.

Which algorithm ran is seen in the sums: programs/order_of_sums.c prints a hash of sums whose
rounding depends on the order in which an algorithm adds. It is compared with the one of the
algorithm that the library's own variables force. Open MPI's releases have no output about rules
files; MPICH prints which files it uses.
"""

import json
import os
import signal
import subprocess

import pytest

from cclmark.kinds.tune import mpich_selection, open_mpi_rules
from cclmark.kinds.tune.algorithm_rule import AlgorithmRule
from cclmark.kinds.tune.mpich_selection import builtin_trees
from cclmark.options.environment_file import read_shell, shell_text
from commands import completed
from examples import exhaustive
from mpis import mpirun_of
from places import TESTS

SOURCE = TESTS / "programs" / "order_of_sums.c"
SMALL, LARGE = 1024, 262144
RANKS = 4
OPERATIONS = (
    *("all_gather", "all_reduce", "alltoall", "broadcast", "gather", "reduce", "reduce_scatter"),
    *("scatter", "barrier"),
)
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}

# Of the algorithms of MPICH for all-reduces, those that take no parameters.
WITHOUT_PARAMETERS = ("recursive_doubling", "reduce_scatter_allgather", "ring")

_STARTS = 5  # at most
_NOT_STARTED = "The PMIx server's listener thread failed to start"


class Program:
    """The C program, linked with the library of one MPI."""

    def __init__(self, name, directory):
        self.prefix = mpirun_of(name).parents[1]
        self.library = sorted((self.prefix / "lib").glob("libmpi.so.*"))[0]
        self.path = directory / name
        subprocess.run(
            [
                *("cc", "-O2", "-o", self.path, SOURCE, f"-I{self.prefix / 'include'}"),
                *(self.library, f"-Wl,-rpath,{self.prefix / 'lib'}"),
                "-Wl,--allow-shlib-undefined",
            ],
            check=True,
        )

    def run(self, *sizes, ranks=RANKS, script="", **variables):
        """What its mpirun printed; ``script`` is sourced by the shell that starts it.

        It is started again, a few times, if it fails by itself: on a busy machine Open MPI's cannot
        start a thread in time, and MPICH's writes to a proxy which has just ended.
        """
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OMPI_", "MPIR_", "PRTE_", "PMIX_", "PMI_"))
        }
        command = [self.prefix / "bin" / "mpirun", "-n", str(ranks), self.path, *map(str, sizes)]
        if script:
            command = ["sh", "-c", '. "$0" && exec "$@"', script, *command]
        for _ in range(_STARTS):
            done = completed([*map(str, command)], env={**kept, **ENVIRONMENT, **variables})
            if done.returncode != -signal.SIGPIPE and _NOT_STARTED not in done.stderr:
                break
        return done

    def results(self, *sizes, **how):
        """The text behind each size."""
        done = self.run(*sizes, **how)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = [line.partition(" ") for line in done.stdout.splitlines()]
        found = {int(size): text for size, _, text in lines if size.isdigit()}
        assert set(found) == set(sizes), done.stdout
        return found


@pytest.fixture(scope="module")
def open_mpi(tmp_path_factory):
    return Program("openmpi", tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def mpich(tmp_path_factory):
    return Program("mpich", tmp_path_factory.mktemp("programs"))


def every_algorithm(module, ranks):
    """Rules with which every operation runs all of its algorithms, one after the other."""
    algorithms = {
        operation: [
            name
            for name in module.algorithms_of(operation)
            if name not in ("two_proc", "noncommutative") and not name.endswith("_replace")
        ]
        for operation in OPERATIONS
    }
    for place in range(max(map(len, algorithms.values()))):
        yield [
            AlgorithmRule(operation, ranks, 0, None, names[place % len(names)])
            for operation, names in algorithms.items()
            if names
        ]


def all_reduce(smallest_bytes, largest_bytes, algorithm, *, ranks=RANKS):
    return AlgorithmRule("all_reduce", ranks, smallest_bytes, largest_bytes, algorithm)


def run_all(cclmark, program, variables):
    """All operations, whose data cclmark verifies, with the files of rules."""
    run = cclmark(
        *("collectives", "--only", ",".join(OPERATIONS), "--ccl", "mpi"),
        *("--devices", f"host:{RANKS}", "-b", "4K", "-e", "64K", "-f", "16", "-n", "1", "-w", "0"),
        *("-o", "sum"),
        env={"CCLMARK_MPIRUN": str(program.prefix / "bin" / "mpirun"), **variables},
    )
    statuses = {(result.case.operation, result.status) for result in run.journal.results}
    assert statuses - {(name, "skipped") for name in OPERATIONS} == {
        (name, "ok") for name in OPERATIONS
    }


class TestOpenMpi:
    RULES = (
        all_reduce(0, LARGE - 1, "basic_linear"),
        all_reduce(LARGE, LARGE, "ring"),
    )

    @staticmethod
    def forced(program, algorithm, *sizes):
        return program.results(
            *sizes,
            OMPI_MCA_coll_tuned_use_dynamic_rules="1",
            OMPI_MCA_coll_tuned_allreduce_algorithm=algorithm,
        )

    @staticmethod
    def variables(path):
        return {name: value.format(path=path) for name, value in open_mpi_rules.VARIABLES.items()}

    def written(self, path, rules):
        path.write_text(open_mpi_rules.written(rules, library_version="5.0.11"))
        return self.variables(path)

    def test_each_size_runs_the_algorithm_of_its_rule(self, open_mpi, tmp_path):
        sizes = (SMALL, LARGE - 4, LARGE, LARGE + 4)
        linear = self.forced(open_mpi, "basic_linear", *sizes)
        ring = self.forced(open_mpi, "ring", *sizes)
        default = open_mpi.results(*sizes)
        for size in sizes:
            assert len({linear[size], ring[size], default[size]}) == 3
        found = open_mpi.results(*sizes, **self.written(tmp_path / "rules", self.RULES))
        assert found == {
            SMALL: linear[SMALL],
            LARGE - 4: linear[LARGE - 4],
            LARGE: ring[LARGE],
            LARGE + 4: default[LARGE + 4],
        }

    @pytest.mark.parametrize("ranks", [3, 5])
    def test_other_groups_keep_the_librarys_choice(self, open_mpi, tmp_path, ranks):
        variables = self.written(tmp_path / "rules", self.RULES)
        default = open_mpi.results(SMALL, LARGE, ranks=ranks)
        assert open_mpi.results(SMALL, LARGE, ranks=ranks, **variables) == default
        own = [all_reduce(0, None, "basic_linear", ranks=ranks)]
        variables = self.written(tmp_path / "own", own)
        assert open_mpi.results(SMALL, LARGE, ranks=ranks, **variables) != default

    @pytest.mark.exhaustive
    def test_every_algorithm_is_one_of_the_library(self, open_mpi, cclmark, tmp_path):
        for rules in every_algorithm(open_mpi_rules, RANKS):
            run_all(cclmark, open_mpi, self.written(tmp_path / "rules", rules))


class TestMpich:
    RULES = (
        all_reduce(0, LARGE - 1, "tree"),
        all_reduce(LARGE, LARGE, "ring"),
    )

    @staticmethod
    def forced(program, algorithm, *sizes, ranks=RANKS):
        return program.results(
            *sizes,
            ranks=ranks,
            MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM="mpir",
            MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=algorithm,
        )

    @staticmethod
    def written(program, directory, rules):
        builtin = builtin_trees(program.library.read_bytes())
        files = mpich_selection.selection(rules, builtin, library_version="5.0.2")
        variables = {}
        for name, part in mpich_selection.VARIABLES.items():
            path = directory / f"{part}.json"
            path.write_text(getattr(files, part))
            variables[name] = str(path)
        return variables

    def test_each_size_runs_the_algorithm_of_its_rule(self, mpich, tmp_path):
        sizes = (SMALL, LARGE - 4, LARGE, LARGE + 4)
        tree = self.forced(mpich, "tree", *sizes)
        ring = self.forced(mpich, "ring", *sizes)
        default = mpich.results(*sizes)
        for size in sizes:
            assert len({tree[size], ring[size], default[size]}) == 3
        variables = self.written(mpich, tmp_path, self.RULES)
        assert mpich.results(*sizes, **variables) == {
            SMALL: tree[SMALL],
            LARGE - 4: tree[LARGE - 4],
            LARGE: ring[LARGE],
            LARGE + 4: default[LARGE + 4],
        }

    @pytest.mark.parametrize("ranks", [3, exhaustive(5)])
    def test_other_groups_keep_the_librarys_choice(self, mpich, tmp_path, ranks):
        default = mpich.results(SMALL, LARGE, ranks=ranks)
        assert self.forced(mpich, "ring", SMALL, LARGE, ranks=ranks) != default
        variables = self.written(mpich, tmp_path, self.RULES)
        assert mpich.results(SMALL, LARGE, ranks=ranks, **variables) == default

    @pytest.mark.exhaustive
    def test_every_algorithm_is_one_of_the_library(self, mpich, cclmark, tmp_path):
        for rules in every_algorithm(mpich_selection, RANKS):
            run_all(cclmark, mpich, self.written(mpich, tmp_path, rules))

    @pytest.mark.parametrize(
        "algorithm",
        [
            pytest.param(name, marks=[pytest.mark.exhaustive] if name in WITHOUT_PARAMETERS else [])
            for name in mpich_selection.algorithms_of("all_reduce")
        ],
    )
    def test_the_written_parameters_are_those_of_the_variables(self, mpich, tmp_path, algorithm):
        variables = self.written(mpich, tmp_path, [all_reduce(0, None, algorithm)])
        expected = self.forced(mpich, algorithm, SMALL, LARGE)
        assert mpich.results(SMALL, LARGE, **variables) == expected

    def test_the_own_selection_of_the_library_changes_nothing(self, mpich, tmp_path):
        builtin = builtin_trees(mpich.library.read_bytes())
        variables = {}
        for name, part in mpich_selection.VARIABLES.items():
            (tmp_path / part).write_text(json.dumps(getattr(builtin, part)) + "\n")
            variables[name] = str(tmp_path / part)
        assert mpich.results(SMALL, LARGE, **variables) == mpich.results(SMALL, LARGE)


def test_a_shell_reads_the_environment_file(open_mpi, tmp_path):
    rules = tmp_path / "it's a file of rules"
    rules.write_text(open_mpi_rules.written(TestOpenMpi.RULES, library_version="5.0.11"))
    text = shell_text(TestOpenMpi.variables(rules), comments=["library: Open MPI 5.0.11"])
    script = tmp_path / "environment.sh"
    script.write_text(text)
    assert read_shell(text, "it") == TestOpenMpi.variables(rules)
    found = open_mpi.results(LARGE, script=str(script))
    assert found == TestOpenMpi.forced(open_mpi, "ring", LARGE)
