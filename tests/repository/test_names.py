"""Classes and modules of the packages have the only one of their name."""

import re
from collections import defaultdict

from places import REPOSITORY

SOURCE = REPOSITORY / "src"
MODULES = sorted(
    path for path in SOURCE.rglob("*.py") if path.name not in ("__init__.py", "__main__.py")
)
# A rule of a tuner table is one of the rules that were tuned, as the file states it.
LAYERS_OF_ONE_CONCEPT = {"Rule"}


def repeated(names):
    """The names that occur in several modules, and these modules."""
    places = defaultdict(set)
    for name, path in names:
        places[name].add(str(path.relative_to(SOURCE)))
    return {name: sorted(found) for name, found in places.items() if len(found) > 1}


def test_a_class_name_has_one_meaning():
    names = (
        (name, path)
        for path in MODULES
        for name in re.findall(r"^ *class ([A-Za-z]\w*)[(:]", path.read_text(), re.MULTILINE)
    )
    assert repeated(names).keys() == LAYERS_OF_ONE_CONCEPT


def test_a_module_name_occurs_once_except_for_those_of_rooms_and_commands():
    """Rooms and commands have files of the same names."""
    core = SOURCE / "cclmark"
    rooms = {core / name for name in ("comparison", "history", "suites")}
    rooms |= {SOURCE / name for name in ("cclmark_serve", "cclmark_training")}
    rooms |= {path.parent for path in SOURCE.glob("cclmark_*/*/kind.py")}
    rooms |= {path.parent for path in SOURCE.glob("cclmark_*/*/command.py")}
    rooms |= {path.parent for name in ("kinds", "cli") for path in (core / name).glob("*/*.py")}
    others = (path for path in MODULES if path.parent not in rooms)
    assert repeated((path.name, path) for path in others) == {}
