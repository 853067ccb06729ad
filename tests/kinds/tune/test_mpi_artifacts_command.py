"""Open MPI and MPICH follow the files that are written for them, in a program without cclmark.

Which algorithm ran is seen in the sums: programs/order_of_sums.c prints a hash of sums whose
rounding depends on the order in which an algorithm adds. It is compared with the one of the
algorithm that the library's own variables force. Open MPI's releases have no output about rules
files; MPICH prints which files it uses.
"""

import os
import signal
import subprocess

import pytest

from cclmark.kinds.tune import mpich_selection, open_mpi_rules
from cclmark.kinds.tune.algorithm_rule import AlgorithmRule
from cclmark.kinds.tune.mpich_selection import builtin_trees
from commands import completed
from examples import exhaustive
from mpis import mpirun_of
from places import TESTS

SOURCE = TESTS / "programs" / "order_of_sums.c"
SMALL, LARGE = 1024, 262144
RANKS = 4
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
    """The C program, linked with the library of one MPI. ``other``: an algorithm beside the ring
    that it does not choose itself. ``force``: variables that force an algorithm.
    """

    name = other = ""
    force: tuple[str, ...] = ()

    def __init__(self, directory):
        self.prefix = mpirun_of(self.name).parents[1]
        self.library = sorted((self.prefix / "lib").glob("libmpi.so.*"))[0]
        self.path = directory / self.name
        linked = (self.library, f"-Wl,-rpath,{self.prefix / 'lib'}", "-Wl,--allow-shlib-undefined")
        include = f"-I{self.prefix / 'include'}"
        subprocess.run(["cc", "-O2", "-o", self.path, SOURCE, include, *linked], check=True)

    def run(self, *sizes, ranks=RANKS, **variables):
        """What its mpirun printed.

        It is started again, a few times, if it fails by itself: on a busy machine Open MPI's cannot
        start a thread in time, and MPICH's writes to a proxy which has just ended.
        """
        foreign = ("OMPI_", "MPIR_", "PRTE_", "PMIX_", "PMI_")
        kept = {name: it for name, it in os.environ.items() if not name.startswith(foreign)}
        command = [self.prefix / "bin" / "mpirun", "-n", str(ranks), self.path, *map(str, sizes)]
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

    def forced(self, algorithm, *sizes):
        variables = (one.format(algorithm).split("=") for one in self.force)
        return self.results(*sizes, **dict(variables))

    @property
    def rules(self):
        return all_reduce(0, LARGE - 1, self.other), all_reduce(LARGE, LARGE, "ring")


class OpenMpi(Program):
    name, other = "openmpi", "basic_linear"
    force = (
        "OMPI_MCA_coll_tuned_use_dynamic_rules=1",
        "OMPI_MCA_coll_tuned_allreduce_algorithm={}",
    )

    def written(self, directory, rules):
        """The variables with which the rules apply, whose file is in the directory."""
        path = directory / "it's a file of rules"
        path.write_text(open_mpi_rules.written(rules, library_version="5.0.11"))
        return {name: value.format(path=path) for name, value in open_mpi_rules.VARIABLES.items()}


class Mpich(Program):
    name, other = "mpich", "tree"
    force = (
        "MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM=mpir",
        "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM={}",
    )

    def written(self, directory, rules):
        builtin = builtin_trees(self.library.read_bytes())
        files = mpich_selection.selection(rules, builtin, library_version="5.0.2")
        variables = {}
        for name, part in mpich_selection.VARIABLES.items():
            path = directory / f"{part}.json"
            path.write_text(getattr(files, part))
            variables[name] = str(path)
        return variables


@pytest.fixture(scope="module")
def open_mpi(tmp_path_factory):
    return OpenMpi(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def mpich(tmp_path_factory):
    return Mpich(tmp_path_factory.mktemp("programs"))


@pytest.fixture(params=["open_mpi", "mpich"])
def program(request):
    return request.getfixturevalue(request.param)


def all_reduce(smallest_bytes, largest_bytes, algorithm, *, ranks=RANKS):
    return AlgorithmRule("all_reduce", ranks, smallest_bytes, largest_bytes, algorithm)


def test_each_size_runs_the_algorithm_of_its_rule(program, tmp_path):
    sizes = (SMALL, LARGE - 4, LARGE, LARGE + 4)
    other = program.forced(program.other, *sizes)
    ring = program.forced("ring", *sizes)
    default = program.results(*sizes)
    for size in sizes:
        assert len({other[size], ring[size], default[size]}) == 3
    assert program.results(*sizes, **program.written(tmp_path, program.rules)) == {
        SMALL: other[SMALL],
        LARGE - 4: other[LARGE - 4],
        LARGE: ring[LARGE],
        LARGE + 4: default[LARGE + 4],
    }


def test_other_groups_keep_the_librarys_choice(program, tmp_path):
    ranks = RANKS + 1
    variables = program.written(tmp_path, program.rules)
    default = program.results(SMALL, LARGE, ranks=ranks)
    assert program.results(SMALL, LARGE, ranks=ranks, **variables) == default
    variables = program.written(tmp_path, [all_reduce(0, None, "ring", ranks=ranks)])
    assert program.results(SMALL, LARGE, ranks=ranks, **variables) != default


@pytest.mark.parametrize(
    "algorithm",
    [
        exhaustive(name) if name in WITHOUT_PARAMETERS else name
        for name in mpich_selection.algorithms_of("all_reduce")
    ],
)
def test_the_written_parameters_are_those_of_the_variables(mpich, tmp_path, algorithm):
    variables = mpich.written(tmp_path, [all_reduce(0, None, algorithm)])
    expected = mpich.forced(algorithm, SMALL, LARGE)
    assert mpich.results(SMALL, LARGE, **variables) == expected
