"""Ranks that train on gloo, with one parallelism or several; rank 0 writes what it found as JSON.

    python layout_steps.py DIRECTORY

Two ranks write ``DIRECTORY/2.json``, four ``4.json``. ``steps``: for each case the losses of all
ranks together, those of one rank with the same sequences and with others, the ranks whose
replicated parameters differ, the number of these parameters, and the calls of a step (see
TrainingResult.groups); ``peaks``: the estimated memory and the largest memory of the tensors of a
rank; ``cases``: the rows of CASES.
"""

import functools
import json
import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from cclmark.work.models import find_model
from cclmark.work.variants import DEFAULT
from cclmark_training.choices import COMBINED, NONE
from cclmark_training.layout import parse_layout
from cclmark_training.memory import memory_of
from cclmark_training.plan import Training, check_training
from cclmark_training.torch import meshed  # noqa: F401 - imported once, before the fork
from cclmark_training.torch.call_recorder import CallRecorder, calls_of
from cclmark_training.torch.trainer import Setup
from cclmark_training.torch.training_runner import compare_replicas, token_batches, trainer_of

STEPS, LENGTH, SEED = 3, 24, 3
RATES = {"sgd": 0.5, "adamw": 3e-3}
#: By ranks and name: the parallelism or layout, the model, the optimizer, and changes.
CASES = {
    2: {
        "ddp": ("ddp", "tiny", "sgd", {}),
        "zero1": ("zero1", "tiny-llama", "adamw", {}),
        "fsdp": ("fsdp", "tiny", "sgd", {}),
        "fsdp of llama": ("fsdp", "tiny-llama", "adamw", {}),
        "tp": ("tp", "tiny", "sgd", {}),
        "tp of llama": ("tp", "tiny-llama", "sgd", {}),
        "pp": ("pp", "tiny", "sgd", {"microbatches": 2}),
        "ep": ("ep", "tiny-moe", "sgd", {}),
    },
    4: {
        "tensor ranks with replicas": ("tp=2,dp=2", "tiny", "sgd", {}),
        "sequence parallel in stages": (
            *("tp=2,pp=2", "tiny-llama", "sgd"),
            {"by_sequence": True, "microbatches": 4},
        ),
        "shards of tensor ranks": ("tp=2,fsdp=2", "tiny-llama", "adamw", {"microbatches": 2}),
        "shards of stages": ("pp=2,fsdp=2", "tiny", "adamw", {"microbatches": 2}),
        "accumulated": ("ddp", "tiny", "sgd", {"microbatches": 2}),
        "accumulated shards": ("fsdp", "tiny", "sgd", {"microbatches": 2}),
        "accumulated experts": ("ep", "tiny-moe", "sgd", {"microbatches": 2}),
        "uneven replicas": ("ddp", "tiny", "sgd", {"microbatches": 3, "uneven": (3, 1, 2, 2)}),
        "uneven shards": ("fsdp", "tiny", "sgd", {"microbatches": 4, "uneven": (4, 2, 1, 1)}),
        "uneven stages": ("pp=2,dp=2", "tiny", "sgd", {"microbatches": 5, "uneven": (5, 3)}),
    },
}
#: Whose memory is compared with the estimate.
PEAKS = {
    2: {
        "fsdp of two types": ("fsdp", "tiny", {"dtype": "mixed"}),
        "tp": ("tp", "tiny", {}),
        "ep": ("ep", "tiny-moe", {}),
    },
    4: {
        "tensor ranks": ("tp=2,dp=2", "tiny-llama", {"by_sequence": True, "microbatches": 2}),
        "stages": ("pp=2,dp=2", "tiny", {"microbatches": 4}),
        "shards of tensor ranks": ("tp=2,fsdp=2", "tiny-llama", {"microbatches": 2}),
        "accumulated": ("ddp", "tiny", {"microbatches": 2}),
    },
}
SEQUENCES = 8  # of a step, of all ranks
_groups = {}


def training_of(parallel, model, optimizer, ranks, changes):
    """A training that is possible, with SEQUENCES sequences in a step."""
    layout = parse_layout(parallel) if "=" in parallel else None
    if layout is not None and len(layout.sizes) == 1:
        (parallel,), layout = layout.sizes, None
    training = Training(
        variant=DEFAULT,
        round=0,
        ccl="torch:gloo",
        model=find_model(model, None),
        parallel=COMBINED if layout is not None else parallel,
        layout=layout,
        ranks=ranks,
        batch=1,
        sequence=LENGTH,
        dtype="float32",
        optimizer=optimizer,
        learning_rate=RATES[optimizer],
    )
    uneven = changes.get("uneven")
    batch = max(uneven) if uneven else SEQUENCES // training.replicas
    training = Training(**{**_fields(training), "batch": batch, **changes})
    check_training(training)
    assert training.global_batch == SEQUENCES
    return training


def _fields(one):
    return {name: getattr(one, name) for name in one.__struct_fields__}


def batches_of(setup, seed):
    """The sequences of this rank."""
    vocabulary = setup.training.model.vocabulary
    return token_batches(seed, vocabulary, setup.sequences, LENGTH, setup.device)


@functools.cache
def alone(model, optimizer, seed=SEED):
    """The losses of a single rank with all sequences."""
    setup = Setup(training_of(NONE, model, optimizer, 1, {}), 0, 1, torch.device("cpu"), SEED)
    trainer, batches = trainer_of(setup), batches_of(setup, seed)
    return [float(trainer.step(batches[step])) for step in range(STEPS)]


class Group:
    """What compare_replicas requires of a group of ranks."""

    def __init__(self, ranks):
        self._ranks = ranks

    def gather(self, values):
        """See cclmark._engine.RankGroup."""
        own = torch.tensor(values, dtype=torch.float64)
        found = [torch.empty_like(own) for _ in range(self._ranks)]
        dist.all_gather(found, own)
        return [float(value) for one in found for value in one]


def outcome(parallel, model, optimizer, changes, rank, ranks):
    """The row of a case, see the module."""
    training = training_of(parallel, model, optimizer, ranks, changes)
    setup = Setup(training, rank, ranks, torch.device("cpu"), SEED)
    trainer, batches = trainer_of(setup), batches_of(setup, SEED)
    own = [float(trainer.step(batches[step])) for step in range(STEPS)]
    group = Group(ranks)
    everyone = torch.tensor(group.gather(own), dtype=torch.float64).view(ranks, STEPS)
    together = everyone[trainer.loss_ranks or list(range(ranks))].mean(dim=0).tolist()
    check = compare_replicas(trainer.replicated(), group, ranks)
    with CallRecorder() as recorder:
        trainer.step(batches[0])
    # torch uses the groups of an equal earlier mesh.
    _groups.update(trainer.groups)
    groups = calls_of(recorder, _groups, training, group)
    calls = [[one.group, one.ranks, one.operation, one.calls, one.size_bytes] for one in groups]
    return [together, [one.rank for one in check.differences], check.elements, calls]


class Peak(TorchDispatchMode):
    """The largest memory of all tensors at once, of the storages that operators have seen."""

    def __init__(self):
        super().__init__()
        self.live = WeakIdKeyDictionary()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if DTensor in types:
            return NotImplemented  # its operators on local tensors follow
        found = function(*args, **(kwargs or {}))
        added = False
        for one in tree_leaves((found, args, kwargs)):
            if type(one) in (torch.Tensor, torch.nn.Parameter):
                storage = one.untyped_storage()
                added |= storage not in self.live
                self.live[storage] = None
        if added:  # only then there may be more than before
            self.bytes = max(self.bytes, sum(storage.nbytes() for storage in self.live))
        return found


def peak(parallel, model, changes, rank, ranks):
    """The estimated memory, and the largest of this rank's tensors in two steps."""
    changes = {"sequence": 64, **changes}
    training = training_of(parallel, model, "adamw", ranks, changes)
    setup = Setup(training, rank, ranks, torch.device("cpu"), SEED)
    with Peak() as found:
        trainer = trainer_of(setup)
        vocabulary = training.model.vocabulary
        tokens = token_batches(SEED, vocabulary, setup.sequences, 64, setup.device)[0]
        for _ in range(2):  # the first one creates the optimizer's state
            trainer.step(tokens)
    largest = torch.tensor(found.bytes)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return memory_of(training).total, int(largest)


def run(directory, ranks):
    rank = next((one for one in range(1, ranks) if not os.fork()), 0)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    meeting = f"file://{directory / f'meeting-{ranks}'}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    rows = {}
    for name, (parallel, model, optimizer, changes) in CASES[ranks].items():
        found = outcome(parallel, model, optimizer, changes, rank, ranks)
        if rank == 0:
            other = alone(model, optimizer, SEED + 1)
            rows[name] = [found[0], alone(model, optimizer), other, *found[1:]]
    peaks = {name: peak(*one, rank, ranks) for name, one in PEAKS[ranks].items()}
    rows = {"steps": rows, "peaks": peaks, "cases": CASES[ranks]}
    dist.barrier()
    if rank == 0:
        (directory / f"{ranks}.json").write_text(json.dumps(rows))
    os._exit(0)  # gloo's threads may still run


if __name__ == "__main__":
    for number in CASES:  # one import of torch for all ranks
        if not os.fork():
            run(Path(sys.argv[1]), number)
    sys.exit(any(os.wait()[1] for _ in CASES))
