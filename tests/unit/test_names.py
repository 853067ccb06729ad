"""Classes and modules of the package have the only one of their name."""

import re
from collections import defaultdict
from pathlib import Path

import cclmark

SOURCE = Path(cclmark.__file__).parent
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


def test_a_module_name_occurs_once_except_for_those_of_a_kind():
    of_kinds = (SOURCE / "run" / "kinds", SOURCE / "report" / "kinds")
    rooms = SOURCE / "kinds"  # whose files have the same names in each
    shared = repeated((path.name, path) for path in MODULES if rooms not in path.parents)
    for name, found in shared.items():
        assert [SOURCE / one for one in found] == sorted(where / name for where in of_kinds), name
