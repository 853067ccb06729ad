"""The scenarios of commands: see ``scenarios.py``."""

import pytest
from scenarios import Runner, scenarios


@pytest.mark.parametrize("commands", scenarios())
def test_commands_print_what_is_expected(request, cclmark, tmp_path, commands):
    runner = Runner(request, cclmark, tmp_path)
    problems = [problem for command in commands for problem in runner.problems(command)]
    assert not problems, "\n\n".join(problems)
