"""The capabilities of each library for ``cclmark info --ccls``, without any measurement."""

from __future__ import annotations

from cclmark import __version__
from cclmark import _engine as engine
from cclmark.errors import MissingError
from cclmark.plan.libraries import (
    BRIDGE,
    engine_libraries,
    in_place_only,
    usual_runtime,
    verified,
)
from cclmark.plan.library_files import Library
from cclmark.plan.operations import COLLECTIVES
from cclmark.results.schema import CclReport
from cclmark.run.probe import open_found


def report_ccls(ccl_path: str) -> list[CclReport]:
    """Reports on all libraries, then on torch's backends, including missing ones.

    ``ccl_path``: the library file for NCCL.
    """
    reports = [_native(one, ccl_path) for one in engine_libraries()]
    return [*reports, _bridge(), *_torch()]


def _bridge() -> CclReport:
    return CclReport(
        name=BRIDGE,
        runtimes=["any"],
        verified=verified(BRIDGE),
        version=__version__,
        path="built in",
        routes=dict.fromkeys(COLLECTIVES, "by island and between islands"),
    )


def _native(library: Library, ccl_path: str) -> CclReport:
    name = library.name
    report = CclReport(name, library.devices, verified(name))
    try:
        info = open_found(name, ccl_path).info
    except (engine.EngineError, MissingError) as error:
        report.reason = str(error)
        return report
    report.version, report.path, report.id_bytes = info.version, info.path, info.id_bytes
    report.dtypes, report.reduced_dtypes = info.dtypes, info.reduced_dtypes
    report.reductions = info.reductions
    report.routes = dict(info.routes)
    report.in_place_only = [one for one in COLLECTIVES if in_place_only(name, one)]
    report.has, report.lacks = info.capabilities, info.missing
    return report


def _torch() -> list[CclReport]:
    from cclmark.run.torch_backend import OF_OTHER_DEVICES, PLUG_INS, built_in_names, load_torch

    try:
        torch = load_torch("", [])
    except engine.MissingError as error:
        return [CclReport("torch:BACKEND", ["cuda", "host"], "", str(error))]
    names = built_in_names(torch).union(PLUG_INS, OF_OTHER_DEVICES)
    return [_of_torch(backend) for backend in sorted(names)]


def _of_torch(backend: str) -> CclReport:
    from cclmark.run.torch_backend import describe_backend, load_torch
    from cclmark.run.torch_ccl import route_of

    name = f"torch:{backend}"
    report = CclReport(name, [usual_runtime(backend) or "any"], verified(name))
    try:
        description = describe_backend(load_torch(backend, []), backend)
    except engine.MissingError as error:
        report.reason = str(error)
        return report
    report.version, report.path = description.version, description.path
    report.routes = {operation: route_of(operation) for operation in COLLECTIVES}
    report.in_place_only = [one for one in COLLECTIVES if in_place_only(name, one)]
    return report
