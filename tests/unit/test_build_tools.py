"""The wheel is built with the same tools by make and by pip."""

import re
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # before Python 3.11
    import tomli as tomllib

REPOSITORY = Path(__file__).parents[2]


def test_make_has_the_tools_that_pip_requires():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    (tools,) = re.findall(r"^BUILD_TOOLS := (.*)$", (REPOSITORY / "Makefile").read_text(), re.M)
    of_make = set(tools.replace('"', "").split())
    # pip's build requires these two only where the machine does not have them.
    assert of_make - {"cmake", "ninja"} == set(project["build-system"]["requires"])
