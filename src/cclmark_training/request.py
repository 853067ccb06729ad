"""Runs ``cclmark train``: flags to a training and its variants, these to ranks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from cclmark.base.errors import UsageError
from cclmark.journal.schema import HostDescription
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.placement import find_placement
from cclmark.launch.request import Request
from cclmark.options.case_request import with_new_ranks
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
from cclmark_training.choices import (
    ADAMW,
    COMBINED,
    DDP,
    LEARNING_RATES,
    MIXABLE,
    MIXED,
    NONE,
    TENSOR,
)
from cclmark_training.command import USUAL_BALANCE_WEIGHT, USUAL_SEQUENCE, TrainFlags
from cclmark_training.kind import KIND
from cclmark_training.layout import REPLICAS, MeshLayout, require_ranks
from cclmark_training.plan import BatchOptions, Training, check_training, dtype_called, trainings_of
from cclmark_training.recipes import RECIPES, Recipe

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
    if training.degrees.pp > 1 and devices.runtime != "host" and "torch:gloo" in backends:
        # Backends: https://docs.pytorch.org/docs/stable/distributed.html
        raise UsageError(
            "torch:gloo sends and receives no memory of devices, and stages of a pipeline do: "
            "leave it out of --ccl, or use --devices host"
        )
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
        request = with_new_ranks("train", request)
    return record(request, flags, f"train-{training.model.name}-{_label(training)}-{ranks}")


def _label(one: Training) -> str:
    return one.arrangement.replace("=", "").replace(",", "-")


def _training_of(flags: TrainFlags, runtime: str, ranks: int, ccl: str) -> Training:
    recipe = RECIPES[flags.recipe] if flags.recipe else None
    if recipe is not None:
        flags = _with_recipe(flags, recipe, ranks)
    model: Model = find_model(flags.model or _USUAL_MODELS.get(runtime, _USUAL_MODEL), flags.layers)
    if flags.vocabulary is not None:
        model = model.with_vocabulary(flags.vocabulary)
    parallel, layout = _parallelism(flags, ranks)
    optimizer = flags.optimizer or ADAMW
    training = Training(
        variant=DEFAULT,
        round=0,
        ccl=ccl,
        model=model,
        parallel=parallel,
        layout=layout,
        ranks=ranks,
        batch=1,
        sequence=flags.sequence or min(USUAL_SEQUENCE, model.context),
        dtype=dtype_called(flags.dtype or _USUAL_DTYPES.get(runtime, _USUAL_DTYPE)),
        optimizer=optimizer,
        learning_rate=LEARNING_RATES[optimizer]
        if flags.learning_rate is None
        else flags.learning_rate,
        compiled=flags.compiled,
        balance_weight=(USUAL_BALANCE_WEIGHT if model.experts else 0.0)
        if flags.balance_loss is None
        else flags.balance_loss,
        peak_flops=(flags.peak_teraflops or 0.0) * _TERA,
        by_sequence=flags.by_sequence,
        recipe=flags.recipe or "",
    )
    given = BatchOptions(flags.batch, flags.global_batch, flags.micro_batch, flags.microbatches)
    batch, microbatches, uneven = given.of(training.degrees)
    training = msgspec.structs.replace(
        training, batch=batch, microbatches=microbatches, uneven=uneven
    )
    check_training(training)
    return training


def _parallelism(flags: TrainFlags, ranks: int) -> tuple[str, MeshLayout | None]:
    """Returns the parallelism, and its layout if it is combined. Raises UsageError."""
    layout = flags.layout
    if layout is None:
        return flags.parallel or (DDP if ranks > 1 else NONE), None
    if flags.parallel is not None:
        raise UsageError("--layout and --parallel exclude each other")
    require_ranks(layout, ranks)
    if len(layout.sizes) > 1:
        return COMBINED, layout
    name = next(iter(layout.sizes), NONE)
    return (DDP if name == REPLICAS else name), None


def _with_recipe(flags: TrainFlags, recipe: Recipe, ranks: int) -> TrainFlags:
    """Returns the options of a recipe where others are not given. Raises UsageError."""
    if flags.model not in ("", recipe.model):
        raise UsageError(
            f"--recipe {flags.recipe} is a training of {recipe.model}, not {flags.model}"
        )
    layout = flags.layout
    if layout is None and flags.parallel is None:
        layout = recipe.layout
        if ranks % layout.ranks:
            raise UsageError(
                f"--recipe {flags.recipe} has the layout {layout.describe()}, but {ranks} is no "
                f"multiple of its {layout.ranks} ranks: write another one with --layout"
            )
        # The recipe's optimizer is distributed, as is that of fully_shard.
        layout = msgspec.structs.replace(layout, fsdp=ranks // layout.ranks)
    has_batch = flags.batch is not None or flags.global_batch is not None
    has_parts = flags.micro_batch is not None or flags.microbatches
    shares = (layout is not None and layout.tp > 1) or flags.parallel == TENSOR
    mixes = (layout is not None and layout.fsdp > 1) or flags.parallel in MIXABLE
    return replace(
        flags,
        model=recipe.model,
        layout=layout,
        by_sequence=flags.by_sequence or (recipe.by_sequence and shares),
        global_batch=flags.global_batch if has_batch else recipe.global_batch,
        micro_batch=flags.micro_batch if has_parts else recipe.micro_batch,
        sequence=flags.sequence or recipe.sequence,
        dtype=flags.dtype or (recipe.dtype if recipe.dtype != MIXED or mixes else ""),
        optimizer=flags.optimizer or recipe.optimizer,
        learning_rate=recipe.learning_rate if flags.learning_rate is None else flags.learning_rate,
    )


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
                "zero1, those outside the experts with ep, those of dp in layouts, a tied "
                "embedding of the first and the last stage with pp), and not with -c 0, so the "
                "fault would not be detected"
            )
        if fault.value >= elements:
            raise UsageError(f"{text!r}: the first parameter has {elements} elements")
