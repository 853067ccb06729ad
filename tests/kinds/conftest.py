"""What tests of the commands of several kinds share."""

import shlex

import pytest

from goldens import require_outcomes


@pytest.fixture
def refusals(cclmark, request):
    """Compares the messages of refused commands with those stored in a file of the room.

    Variables may precede a command, in brackets. Nothing is started, printed or written.
    """

    def require(name, env):
        def error(line):
            given, _, words = line.rpartition("] ")
            variables = dict(one.split("=", 1) for one in shlex.split(given.removeprefix("[")))
            run = cclmark(*shlex.split(words), env={**env, **variables}, code=(2, 3))
            assert (run.out, run.written()) == ("", [])
            _, _, message = run.err.strip().rpartition("\n\n")  # behind the use of the command
            return f"{run.code}: {message}"

        require_outcomes(request.path.with_name(name), error)

    return require


@pytest.fixture
def cut(tmp_path):
    """Writes the first lines of the journal of a run, as if it had been killed then."""

    def first_lines(run, number):
        lines = run.journal_path.read_bytes().splitlines(keepends=True)
        part = tmp_path / "part.jsonl"
        part.write_bytes(b"".join(lines[:number]))
        return str(part)

    return first_lines


@pytest.fixture
def flagcx_env(fake_cuda):
    """The environment with the fakes of CUDA, of NCCL, and of FlagCX above them."""
    library = str(fake_cuda.nccl.parent / "libflagcx.so")
    return lambda **more: fake_cuda.env(CCLMARK_FLAGCX_LIBRARY=library, **more)
