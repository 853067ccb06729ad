"""The variants that ``--vary`` requests, for the commands that compare settings."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cclmark.cli.communicator_options import check_options_of, parse_config, require_option
from cclmark.cli.options import Flags
from cclmark.errors import UsageError
from cclmark.plan.libraries import MPI, torch_backend_of
from cclmark.plan.library_settings import (
    check_combination,
    check_value,
    find_setting,
    foreign_setting,
    is_kept,
    requires_new_processes,
    unknown_setting_notice,
)
from cclmark.plan.variants import (
    COMMUNICATOR,
    MEMORY,
    PLACEMENT,
    PROCESS,
    REGISTRATION,
    Assignment,
    Variant,
    variants_of,
)

#: A setting and its values.
VariedSetting = tuple[str, Sequence[str]]


def checked_variants(
    varied: Sequence[VariedSetting],
    ccl: str,
    flags: Flags,
    *,
    one_at_a_time: bool,
    version: str = "",
) -> tuple[list[Variant], list[str]]:
    """Returns the variants for the library ``ccl``, and notices on impossible combinations.

    ``version``: of the library, empty if it is unknown. Raises UsageError if no combination is
    possible.
    """
    names = [name for name, _ in varied]
    if REGISTRATION in names and (flags.register or flags.register_number is not None):
        raise UsageError("-R and --register exclude --vary registration")
    if MEMORY in names and flags.memory:
        raise UsageError("--memory excludes --vary memory")
    found = variants_of(varied, lambda name: scope_of(ccl, name), one_at_a_time=one_at_a_time)
    check_options_of(found, ccl, parse_config(flags.config))
    return possible_variants(found, ccl, version)


def possible_variants(
    found: Sequence[Variant], ccl: str, version: str = ""
) -> tuple[list[Variant], list[str]]:
    """Returns the variants whose variables are possible together, and notices on the others.

    Raises UsageError if none is possible.
    """
    possible, notices = [], []
    for variant in found:
        variables = {one.name: one.value for one in variant.assignments if one.is_variable}
        try:
            check_combination(ccl, variables, version, os.environ)
        except UsageError as error:
            if len(variables) == 1 or len(found) == 1:
                raise
            notices.append(f"{variant.describe()} is left out: {error}")
            continue
        possible.append(variant)
    if not possible:
        raise UsageError(f"--vary: no combination is possible: {notices[0]}")
    return possible, notices


def scope_of(ccl: str, name: str) -> str:
    """Returns whether a setting requires new processes, or only a new communicator."""
    if ccl == MPI or torch_backend_of(ccl) is not None:
        return PROCESS  # their communicators are created once in a process
    if name in (REGISTRATION, MEMORY, PLACEMENT):
        return COMMUNICATOR
    return PROCESS if requires_new_processes(ccl, name) else COMMUNICATOR


def check_settings(varied: Sequence[VariedSetting], ccl: str, version: str = "") -> list[str]:
    """Returns notices on unknown and overridden settings. Raises UsageError for wrong values.

    ``version``: of the library, empty if it is unknown.
    """
    notices = []
    for name, values in varied:
        if Assignment(name, "").option:
            require_option("--vary", ccl, name)
        elif not Assignment(name, "").is_variable:
            continue
        setting = find_setting(ccl, name)
        # NCCL may work below any other library.
        for one in (setting, find_setting("nccl", name)):
            if one is not None and is_kept(one, os.environ):
                raise UsageError(
                    f"--vary {name}: {name}={os.environ[name]} is set in the environment, and "
                    "cclmark does not override it"
                )
        if setting is None:
            foreign = foreign_setting(ccl, name)
            notices.append(foreign or unknown_setting_notice(ccl, name))
            continue
        for value in values:
            check_value(setting, value, version, os.environ)
        if name in os.environ:
            notices.append(
                f"{name}={os.environ[name]} is set in the environment: it is the default here, and "
                "the varied values replace it"
            )
    return notices
