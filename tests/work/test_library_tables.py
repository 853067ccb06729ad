"""Tables of documents that are made of the files that describe libraries.

After a change, UPDATE_DOCUMENTS=1 .venv/bin/pytest tests/work/test_library_tables.py writes them.
"""

import os
import re
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import pytest

from cclmark.rank.torch_backend import PLUG_INS
from cclmark.work.libraries import listed_settings, shipped
from cclmark.work.library_files import Library
from cclmark.work.library_settings import allowed_values, settings_of
from cclmark.work.operations import DTYPE_BYTES
from cclmark.work.setting_fields import LibrarySetting
from cclmark.work.torch_devices import TORCH_DEVICES
from measured_results import HOSTS, RESULTS, measured, models, where
from places import REPOSITORY

RUNS = measured()
DOCS = REPOSITORY / "docs"
TABLE = re.compile(r"(<!-- table (\w+) -->\n)(.*?)(<!-- end table -->)", re.DOTALL)
MAKERS = {
    "cuda": "NVIDIA GPUs",
    "hip": "AMD GPUs",
    "acl": "Ascend NPUs",
    "host": "hosts",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)


def code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def of_devices(library: Library) -> str:
    if not library.devices:
        return "any, one kind or several"
    own = f"{library.vendor} (`{{}}`)" if library.vendor else "`{}`"
    return ", ".join(MAKERS.get(one, own.format(one)) for one in library.devices)


def results_of(library: Library) -> dict[str, str]:
    """The devices in the stored results of a library, by model; ``torch``: of all its others."""
    if library.name != "torch":
        return dict(where(RUNS, [library.name]))
    names = {name for run in RUNS for name in run.versions if name.startswith("torch:")}
    cells: dict[str, list[str]] = {}
    for name in sorted(names - set(shipped())):
        for model, text in where(RUNS, [name]).items():
            cells.setdefault(model, []).append(f"{name.removeprefix('torch:')}: {text}")
    return {model: "; ".join(texts) for model, texts in cells.items()}


def tried() -> str:
    rows = []
    columns = models(RUNS)
    for library in shipped().values():
        name = "`torch:` others" if library.name == "torch" else f"`{library.name}`"
        devices = "those of its build" if library.shape == "flagcx" else of_devices(library)
        results, facts = results_of(library), library.tried
        stored = [results.get(model, "") for model in columns]
        rows.append([name, devices, *stored, facts.hardware, facts.fake, facts.missing])
    head = ["`--ccl`", "devices", *columns, "besides", "through a fake", "not tried"]
    return table(head, rows)


def types_of(library: Library) -> str:
    """What of NCCL's types it lacks: none of these libraries has 16-bit integers."""
    assert not {"int16", "uint16"} & set(library.types)
    missing = [name for name in DTYPE_BYTES if name not in (*library.types, "int16", "uint16")]
    words = [name for name in missing if not name.startswith("fp8")]
    if any(name.startswith("fp8") for name in missing):
        words.append("8-bit floats")
    if words:
        return f"no {', no '.join(words)}"
    return f"all, 8-bit floats from {library.fp8_since}"


def shaped_as_nccl() -> str:
    rows = []
    for library in shipped().values():
        if library.shape != "nccl":
            continue
        names = library.exchanges
        spelt = [names.alltoall, names.alltoallv, names.older_alltoall, names.older_alltoallv]
        own = library.identified_by
        rows.append(
            [
                f"`{library.name}`",
                library.full_name,
                f"`{Path(library.files[0]).name}`",
                f"`{library.prefix}`",
                library.oldest_version,
                types_of(library),
                code(filter(None, spelt)),
                f"`{own}`" if own else "",
            ]
        )
    exchanges = "exchanges, where it has them"
    return table(
        ["`--ccl`", "library", "file", "prefix", "oldest", "types", exchanges, "identified by"],
        rows,
    )


def places() -> str:
    """Where other vendors' libraries are looked for."""
    head = ["`--ccl`", "`--devices`", "variable", "looked for"]
    rows = [
        [f"`{one.name}`", code(one.devices), f"`{one.variable}`", code(one.files)]
        for one in shipped().values()
        if one.is_loaded and one.name != "nccl" and one.devices[0] not in ("cuda", "host", "acl")
    ]
    return table(head, rows)


def versions_of(setting: LibrarySetting) -> str:
    words = [setting.since] if setting.since else []
    words += [f"`{value}` {version}" for value, version in setting.value_since.items()]
    words += [f"to {most} before {version}" for version, most in setting.maximum_before.items()]
    if setting.per_operation_since:
        words.append(f"for one operation {setting.per_operation_since}")
    if setting.until:
        words.append(f"until {setting.until}")
    return ", ".join(words)


def effect_of(setting: LibrarySetting) -> str:
    words = [setting.effect]
    if setting.operations:
        words.append(f"For {', '.join(setting.operations)}.")
    if setting.between_hosts:
        words.append("Between hosts.")
    words += [f"Requires `{name}={values[0]}`." for name, values in setting.requires.items()]
    if setting.at_least_of:
        words.append(f"Not below `{setting.at_least_of}`.")
    if setting.at_most_of:
        words.append(f"Not above `{setting.at_most_of}`.")
    if setting.product:
        words.append(f"Times `{setting.product.variable}` at most {setting.product.maximum}.")
    words += [
        f"{' or '.join(one.values)}: not while `{one.variable}={one.set_to}` is set."
        for one in setting.conflicts
    ]
    words += [f"cclmark never overrides `{setting.name}={one}`." for one in setting.kept_values]
    return " ".join(words)


def settings(ccl: str) -> str:
    """The settings of a library, without those of another one that it has unchanged."""
    below = shipped()[ccl].inherits.settings_of
    names = {one.name for one in listed_settings(shipped()[ccl])}
    rows = [
        [
            f"`{one.name}`",
            effect_of(one),
            allowed_values(one) or "text",
            f"`{one.default}`" if one.default else "",
            versions_of(one),
            one.scope,
            ", ".join(one.deployed_by) + (f" `{one.option}`" if one.option else ""),
            ", ".join(one.costs),
        ]
        for one in settings_of(ccl)
        if not below or one.name in names
    ]
    head = ["setting", "effect", "values", "default", "since", "takes effect in", "set by", "costs"]
    return table(head, [[cell.replace("|", "\\|") for cell in row] for row in rows])


SETTINGS = [name for name, library in shipped().items() if listed_settings(library)]


def torch_devices() -> str:
    rows = []
    for runtime, device in TORCH_DEVICES.items():
        parts = [f"a torch {device.build}" if device.build else "torch"]
        if device.plug_in:
            parts.append(f"`{device.plug_in}`")
        if device.may_have:
            parts.append(f"`{device.may_have}` if it is installed")
        backend = f"`{device.backend}`" if device.backend else ""
        rows.append([f"`{runtime}`", f"`{device.type}`", backend, ", ".join(parts)])
    return table(["`--devices`", "in torch", "default backend", "imported"], rows)


TABLES = {
    "tried": tried,
    "torch_devices": torch_devices,
    "shaped_as_nccl": shaped_as_nccl,
    "places": places,
    **{f"settings_{name.replace('-', '_')}": partial(settings, name) for name in SETTINGS},
}


@pytest.mark.parametrize(
    "page", ["reference/libraries.md", "how-to/choose-the-library.md", "reference/settings.md"]
)
def test_tables_are_those_of_the_files(page):
    path = DOCS / page
    text = path.read_text()
    assert TABLE.search(text)
    current = TABLE.sub(lambda it: f"{it[1]}{TABLES[it[2]]()}{it[4]}", text)
    if os.environ.get("UPDATE_DOCUMENTS"):
        path.write_text(current)
    else:
        assert text == current, "UPDATE_DOCUMENTS=1 pytest tests/work/test_library_tables.py"


def test_info_names_all_devices_of_the_stored_results():
    """A library's line of ``cclmark info --ccls``."""
    for library in shipped().values():
        results = results_of(library) if library.name != "torch" else {}
        assert all(model in library.verified for model in results), library.name
        assert not set(results) - {HOSTS} or "never" not in library.verified


def test_every_directory_of_devices_has_a_column():
    models_of_directories = {
        found[1].upper()
        for path in RESULTS.iterdir()
        if (found := re.fullmatch(r"([a-z]+\d+)x\d+", path.name))
    }
    assert models_of_directories == {*models(RUNS)} - {HOSTS}


def test_every_library_with_settings_has_a_table():
    text = (DOCS / "reference" / "settings.md").read_text()
    listed = {name for _, name, _, _ in TABLE.findall(text)}
    assert listed == {name for name in TABLES if name.startswith("settings_")}


def test_the_page_on_torch_names_the_plug_ins_that_are_imported():
    text = " ".join((DOCS / "how-to" / "torch-check.md").read_text().split())
    (imported,) = re.findall(r"The plug-ins of ([^;.]+) are imported automatically", text)
    assert set(re.findall(r"`(\w+)`", imported)) == set(PLUG_INS)
