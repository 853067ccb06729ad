"""Options of communicators: ``--config NAME=VALUE``, and the values that ``--vary`` gives them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

from cclmark.errors import UsageError
from cclmark.plan.library_settings import (
    check_combination,
    configuration_files_of,
    unknown_option,
    variable_of_option,
)
from cclmark.plan.variants import OPTION, Variant
from cclmark.results.configuration_files import read_configuration_files

_UNKNOWN_VERSION = ""
_OPTION = re.compile(r"([A-Za-z][A-Za-z0-9]*)=(.+)", re.ASCII)


def parse_config(texts: Iterable[str]) -> dict[str, str]:
    """Returns the options of ``--config``, by the names of the configuration. Raises UsageError."""
    options: dict[str, str] = {}
    for text in texts:
        found = _OPTION.fullmatch(text.strip())
        if found is None:
            raise UsageError(f"--config {text!r}: write NAME=VALUE, for example minCTAs=16")
        if found[1] in options:
            raise UsageError(f"--config {found[1]} is given twice")
        options[found[1]] = found[2]
    return options


def check_config(options: Mapping[str, str], ccls: Sequence[str]) -> None:
    """Checks the options of ``--config`` for every measured library. Raises UsageError."""
    for ccl in ccls:
        for name in options:
            require_option("--config", ccl, OPTION + name)
        _check_together("--config", ccl, options)


def check_options_of(variants: Iterable[Variant], ccl: str, config: Mapping[str, str]) -> None:
    """Checks each variant's options together, with those of ``--config``. Raises UsageError."""
    for variant in variants:
        for name in variant.options:
            variable = variable_of_option(ccl, OPTION + name)
            if variable and variant.value_of(variable):
                raise UsageError(
                    f"--vary {OPTION}{name} excludes --vary {variable}, which overrides the "
                    "option: use --one-at-a-time"
                )
        if variant.options:
            _check_together("--vary", ccl, {**config, **variant.options})


def require_option(flag: str, ccl: str, name: str) -> None:
    """Raises UsageError unless the library can be given the option, and it decides.

    ``name``: with its prefix, for example ``config.minCTAs``.
    """
    if reason := unknown_option(ccl, name):
        raise UsageError(_as_typed(flag, reason))
    variable = variable_of_option(ccl, name)
    if not variable:
        return
    files, _ = read_configuration_files(configuration_files_of(ccl), os.environ)
    for source, variables in (("the environment", os.environ), *files):
        if variable in variables:
            raise UsageError(
                _as_typed(flag, f"{name}: {variable}={variables[variable]} is set in {source} ")
                + "and overrides the option: unset it"
            )


def _check_together(flag: str, ccl: str, options: Mapping[str, str]) -> None:
    values = {OPTION + name: value for name, value in options.items()}
    try:
        check_combination(ccl, values, _UNKNOWN_VERSION, {})
    except UsageError as error:
        raise UsageError(_as_typed(flag, str(error))) from None


def _as_typed(flag: str, text: str) -> str:
    """The text after the flag; names of ``--config`` have no prefix."""
    return f"{flag} {text.replace(OPTION, '') if flag == '--config' else text}"
