"""The variants that ``--vary`` requests, and the runs of commands that measure steps."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from cclmark.base.errors import UsageError
from cclmark.journal.schema import HostDescription, Settings, settings_without_sweep
from cclmark.options.case_request import check_options_together, require_option
from cclmark.options.groups import USUAL_ROUNDS, CaseOptions, ComputeOptions, StepOptions
from cclmark.work.binding import Binding
from cclmark.work.computations import PRODUCT_RUNTIMES, Compute
from cclmark.work.inject import Injection
from cclmark.work.libraries import MPI, torch_backend_of
from cclmark.work.library_settings import (
    check_combination,
    check_value,
    find_setting,
    foreign_setting,
    inactive_on_one_host,
    is_kept,
    requires_new_processes,
    unknown_setting_notice,
    unlisted_setting,
    variable_of_option,
)
from cclmark.work.variants import (
    COMMUNICATOR,
    DEFAULT,
    LIBRARY,
    MEMORY,
    OPTION,
    PLACEMENT,
    PROCESS,
    REGISTRATION,
    Assignment,
    Variant,
    variants_of,
)
from cclmark.work.work_beside import MATMUL, TRIAD

_UNKNOWN_VERSION = ""


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
            check_options_together("--vary", ccl, {**config, **variant.options})


def environment_with(ccl: str, hosts: Sequence[HostDescription]) -> dict[str, str]:
    """The variables of this process, with the values of other hosts that are never overridden."""
    kept = {
        name: value
        for host in hosts
        for name, value in host.environment.items()
        if _is_kept(ccl, name, host.environment)
    }
    return {**os.environ, **kept}


def _is_kept(ccl: str, name: str, environment: Mapping[str, str]) -> bool:
    """Whether a value is final by rules of the library or NCCL, which may work below it."""
    known = (find_setting(ccl, name), find_setting("nccl", name))
    return any(one is not None and is_kept(one, environment) for one in known)


#: A setting and its values.
VariedSetting = tuple[str, Sequence[str]]


def checked_variants(
    varied: Sequence[VariedSetting],
    ccl: str,
    flags: CaseOptions,
    *,
    one_at_a_time: bool,
    version: str = "",
    hosts: Sequence[HostDescription] = (),
) -> tuple[list[Variant], list[str]]:
    """Returns the variants for the library ``ccl``, and notices on impossible combinations.

    ``version``: of the library, empty if it is unknown. ``hosts``: see check_settings. Raises
    UsageError if no combination is possible.
    """
    names = [name for name, _ in varied]
    is_registered = flags.register or flags.register_number is not None
    if REGISTRATION in names and is_registered:
        raise UsageError("-R and --register exclude --vary registration")
    if MEMORY in names and flags.memory:
        raise UsageError("--memory excludes --vary memory")
    found = variants_of(varied, lambda name: scope_of(ccl, name), one_at_a_time=one_at_a_time)
    check_options_of(found, ccl, dict(flags.config))
    return possible_variants(found, ccl, version, hosts)


def possible_variants(
    found: Sequence[Variant], ccl: str, version: str = "", hosts: Sequence[HostDescription] = ()
) -> tuple[list[Variant], list[str]]:
    """Returns the variants whose variables are possible together, and notices on the others.

    ``hosts``: see check_settings. Raises UsageError if none is possible.
    """
    environment = environment_with(ccl, hosts)
    possible, notices = [], []
    for variant in found:
        variables = {one.name: one.value for one in variant.assignments if one.is_variable}
        try:
            check_combination(ccl, variables, version, environment)
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


def check_settings(
    varied: Sequence[VariedSetting],
    ccl: str,
    version: str = "",
    *,
    option: str = "--vary",
    allow_unknown: bool = False,
    hosts: Sequence[HostDescription] = (),
) -> list[str]:
    """Returns notices on overridden settings and on settings of other libraries.

    ``version``: of the library, empty if it is unknown. ``option`` varies the settings. ``hosts``:
    those on which all variants run, by default this one. Raises UsageError for wrong values, for
    settings that have no effect on one host if they run on one, for settings of other libraries
    alone, unless ``allow_unknown`` is set, for a value in the environment of
    any of them that is never overridden, and for a variable that no library's file lists unless
    ``allow_unknown`` is set.
    """
    notices = []
    reasons = [foreign_setting(ccl, name) for name, _ in varied]
    if reasons and all(reasons) and not allow_unknown:
        raise UsageError(
            f"{option} {varied[0][0]}: {reasons[0]}, so that nothing would be compared: choose the "
            "library with --ccl and the devices with --devices, or --allow-unknown-settings"
        )
    environment = environment_with(ccl, hosts)
    given = {**{name: [value] for name, value in environment.items()}, **dict(varied)}
    for name, values in varied:
        # NCCL may work below any library that does not exclude it.
        for library in (ccl, "nccl") if not foreign_setting(ccl, name) else ():
            if len(hosts) < 2 and (reason := inactive_on_one_host(library, name, given)):
                raise UsageError(
                    f"{option} {name}: {reason}, and the ranks of this run are on one host: its "
                    "values could differ by noise only"
                )
        if Assignment(name, "").option:
            require_option(option, ccl, name)
        elif not Assignment(name, "").is_variable:
            continue
        setting = find_setting(ccl, name)
        if _is_kept(ccl, name, environment):
            raise UsageError(
                f"{option} {name}: {name}={environment[name]} is set in the environment, and "
                "cclmark does not override it"
            )
        if setting is None and (unlisted := unlisted_setting(ccl, name)):
            if not allow_unknown:
                raise UsageError(
                    f"{option} {name}: {unlisted} cclmark settings --ccl {ccl} lists those of this "
                    "library; --allow-unknown-settings compares an unknown one nevertheless"
                )
            notices.append(
                f"{name} is unknown to cclmark: its values are not checked, and it may be read by "
                "nothing"
            )
            continue
        if setting is None:
            foreign = foreign_setting(ccl, name)
            notices.append(foreign or unknown_setting_notice(ccl, name))
            continue
        for value in values:
            check_value(setting, value, version, environment)
        if name in os.environ:
            notices.append(
                f"{name}={os.environ[name]} is set in the environment: it is the default here, and "
                "the varied values replace it"
            )
    return notices


def step_variants(
    command: str,
    flags: StepOptions,
    libraries: Sequence[str],
    *,
    with_options: bool,
    hosts: Sequence[HostDescription],
) -> tuple[list[Variant], list[str]]:
    """Returns the default, the other libraries, the varied settings; and notices on these.

    ``with_options``: whether the command varies options of communicators besides variables of the
    environment. ``hosts``: see check_settings. Raises UsageError.
    """
    varied = flags.vary
    for name, _ in varied:
        setting = Assignment(name, "")
        if not (setting.is_variable or (with_options and setting.option)):
            options = " and options of the communicators" if with_options else ""
            raise UsageError(
                f"--vary {name}: {command} varies variables of the environment{options} only"
            )
    if varied and len(libraries) > 1:
        raise UsageError("--vary and several libraries in --ccl exclude each other")
    notices = check_settings(
        varied, libraries[0], allow_unknown=flags.allow_unknown_settings, hosts=hosts
    )
    settings = (
        variants_of(varied, lambda name: PROCESS, one_at_a_time=flags.one_at_a_time)
        if varied
        else []
    )
    check_options_of(settings, libraries[0], {})
    if settings:
        settings, impossible = possible_variants(settings, libraries[0], hosts=hosts)
        notices += impossible
    others = [Variant((Assignment(LIBRARY, name, PROCESS),)) for name in libraries[1:]]
    return [DEFAULT, *others, *settings], notices


def rounds_of(flags: StepOptions, variants: Sequence[Variant]) -> int:
    """Returns the number of rounds."""
    return flags.rounds or (USUAL_ROUNDS if len(variants) > 1 else 1)


def faults_of(command: str, flags: StepOptions, ranks: int) -> dict[str, Injection]:
    """Returns the faults to inject by their texts. Raises UsageError."""
    found = {text: Injection.parse(text, ranks) for text in flags.inject}
    for text, fault in found.items():
        if fault.kind == "hang":
            raise UsageError(f"{text!r}: {command} supports only the faults corrupt and delay")
    return found


def step_settings(flags: StepOptions, ranks: int) -> Settings:
    """Returns how steps are measured. Raises UsageError."""
    return settings_without_sweep(
        "steps",
        flags.timeout_s,
        precision=flags.precision_percent / 100,
        max_time_s=flags.max_time_s,
        iterations=flags.steps,
        warmup=flags.warmup,
        check=flags.check,
        seed=flags.seed,
        inject=list(flags.inject),
        bind=str(Binding.parse(flags.bind, ranks)),
        conditions=flags.conditions,
    )


# The type of the elements of matrix products.
_HOST_DTYPE, _DTYPE = "float32", "bfloat16"


def compute_of(
    options: ComputeOptions,
    runtime: str,
    *,
    usual_rows: int,
    usual_array_bytes: int,
    by_torch: bool = False,
) -> Compute:
    """Returns the compute of ``--compute``, ``--matrix`` and ``--array`` on devices of a runtime.

    ``usual_rows``, ``usual_array_bytes``: without ``--matrix`` and ``--array``. ``by_torch``:
    whether torch may multiply where no other library is known. Raises UsageError.
    """
    if options.compute == TRIAD:
        return Compute(TRIAD, "float32", (options.array or usual_array_bytes) // 16 * 16)
    if runtime not in PRODUCT_RUNTIMES and not by_torch:
        raise UsageError(
            f"no matrix product is known for {runtime} devices, only for "
            f"{' and '.join(PRODUCT_RUNTIMES)} devices: see --devices"
        )
    dtype = _HOST_DTYPE if runtime == "host" else _DTYPE
    return Compute(MATMUL, dtype, options.matrix or usual_rows)
