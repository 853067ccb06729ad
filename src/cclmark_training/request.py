"""Runs ``cclmark train``: flags to a training and its variants, these to ranks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from cclmark.base.errors import UsageError
from cclmark.journal.schema import HostDescription
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.placement import find_placement
from cclmark.launch.request import Request
from cclmark.options.case_request import require_new_ranks
from cclmark.options.environment_file import read_shell
from cclmark.options.varied import (
    environment_with,
    faults_of,
    rounds_of,
    step_settings,
    step_variants,
)
from cclmark.rank import locate
from cclmark.recording.joining import WantedDevices, run_joined
from cclmark.recording.recorder import Recorded, record
from cclmark.work.libraries import torch_backend_of
from cclmark.work.library_settings import check_overrides
from cclmark.work.models import Model, find_model
from cclmark.work.runtimes import NamedDevices, parse_devices
from cclmark.work.torch_devices import require_support, torch_runtimes, usual_backend
from cclmark.work.variants import DEFAULT, PROCESS, Assignment, Variant
from cclmark_training.choices import DDP, LEARNING_RATES, NONE, PIPELINE
from cclmark_training.command import USUAL_BALANCE_WEIGHT, USUAL_SEQUENCE, TrainFlags
from cclmark_training.kind import KIND
from cclmark_training.plan import Training, check_training, dtype_called, trainings_of

_USUAL_HOST_RANKS = 2
_USUAL_MODELS = {"host": "tiny"}
_USUAL_MODEL = "gpt2"
_USUAL_DTYPES = {"host": "float32"}
_USUAL_DTYPE = "bfloat16"
_TERA = 1e12


def measure_training(flags: TrainFlags) -> Recorded:
    """Measures the training of ``flags``."""
    named = flags.ccl
    wanted = WantedDevices(lambda: _devices(flags, named), flags.count, flags.timeout_s)
    return run_joined(wanted, lambda coordinator: _measure(flags, named, coordinator))


def _devices(flags: TrainFlags, named: Sequence[str]) -> NamedDevices:
    """Returns ``--devices``; without it the host, if all backends of ``--ccl`` are its own."""
    if flags.devices or not named:
        return flags.devices
    if any(torch_runtimes(torch_backend_of(name) or "") != ["host"] for name in named):
        return flags.devices
    alone = find_placement(os.environ) is None
    return parse_devices(f"host:{flags.count or _USUAL_HOST_RANKS}" if alone else "host")


def _measure(flags: TrainFlags, named: Sequence[str], coordinator: Coordinator) -> Recorded:
    devices = coordinator.devices
    backends = list(named) or [f"torch:{usual_backend(devices.runtime, '--ccl torch:BACKEND')}"]
    for name in backends:
        require_support(name, torch_backend_of(name) or "", devices.runtime)
    ranks = len(devices.indices)
    training = _training_of(flags, devices.runtime, ranks, backends[0])
    variants, notices = _variants(flags, backends, coordinator.hosts)
    rounds = rounds_of(flags, variants)
    _check_faults(flags, training)
    locate.require_torch()
    request = Request(
        devices=devices,
        settings=step_settings(flags, ranks),
        ccl_wheels={},
        kind=KIND,
        planned=trainings_of(training, variants, rounds),
        modules=flags.modules,
        warnings=notices,
        coordinator=coordinator,
    )
    if len(request.planned) > 1:
        require_new_ranks("train", request)
    return record(request, flags, f"train-{training.model.name}-{training.parallel}-{ranks}")


def _training_of(flags: TrainFlags, runtime: str, ranks: int, ccl: str) -> Training:
    model: Model = find_model(flags.model or _USUAL_MODELS.get(runtime, _USUAL_MODEL), flags.layers)
    if flags.vocabulary is not None:
        model = model.with_vocabulary(flags.vocabulary)
    parallel = flags.parallel or (DDP if ranks > 1 else NONE)
    microbatches = flags.microbatches or 0
    if parallel == PIPELINE:
        microbatches = microbatches or flags.batch
    training = Training(
        variant=DEFAULT,
        round=0,
        ccl=ccl,
        model=model,
        parallel=parallel,
        ranks=ranks,
        batch=flags.batch,
        sequence=flags.sequence or min(USUAL_SEQUENCE, model.context),
        dtype=dtype_called(flags.dtype or _USUAL_DTYPES.get(runtime, _USUAL_DTYPE)),
        optimizer=flags.optimizer,
        learning_rate=LEARNING_RATES[flags.optimizer]
        if flags.learning_rate is None
        else flags.learning_rate,
        microbatches=microbatches,
        compiled=flags.compiled,
        balance_weight=(USUAL_BALANCE_WEIGHT if model.experts else 0.0)
        if flags.balance_loss is None
        else flags.balance_loss,
        peak_flops=(flags.peak_teraflops or 0.0) * _TERA,
    )
    check_training(training)
    return training


def _variants(
    flags: TrainFlags, backends: Sequence[str], hosts: Sequence[HostDescription]
) -> tuple[list[Variant], list[str]]:
    """Returns the default, other backends, varied settings; and notices. Raises UsageError."""
    variants, notices = step_variants("train", flags, backends, with_options=False, hosts=hosts)
    environment = environment_with(backends[0], hosts)
    for name in flags.artifacts:
        variant = _deployed(Path(name))
        check_overrides({one.name: one.value for one in variant.assignments}, environment)
        variants.append(variant)
    if len(set(variants)) < len(variants):
        raise UsageError("two of the variants are equal: see --vary and --artifact")
    return variants, notices


def _deployed(path: Path) -> Variant:
    """Returns the variant of an environment file. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--artifact {path}: cannot be read: {error}") from None
    variables = read_shell(text, str(path))
    if not variables:
        raise UsageError(f"--artifact {path}: contains no variable")
    return Variant(tuple(Assignment(name, value, PROCESS) for name, value in variables.items()))


def _check_faults(flags: TrainFlags, training: Training) -> None:
    """Raises UsageError for a fault that cannot be observed."""
    elements = training.model.vocabulary * training.model.width
    for text, fault in faults_of("train", flags, training.ranks).items():
        if fault.kind != "corrupt":
            continue
        if fault.rank not in training.comparable_ranks or not flags.check:
            raise UsageError(
                f"{text!r}: only parameters that several ranks hold are compared (all with ddp and "
                "zero1, those outside the experts with ep, a tied embedding of the first and the "
                "last rank with pp), and not with -c 0, so the fault would not be detected"
            )
        if fault.value >= elements:
            raise UsageError(f"{text!r}: the first parameter has {elements} elements")
