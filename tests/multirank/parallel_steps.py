"""Two ranks that train with every parallelism on gloo; rank 0 prints what it found as JSON.

    python parallel_steps.py FILE

``FILE``: where the ranks meet. The output: ``losses``: by parallelism, model and optimizer, the
losses of all ranks together and those of one rank with the same data; ``peaks``: by parallelism,
model and type, the estimated memory and the largest memory of the tensors of a rank;
``communication``: by parallelism and model, how often a step calls what.
"""

import functools
import json
import os
import sys
import warnings

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from cclmark.work.models import find_model
from cclmark.work.variants import DEFAULT
from cclmark_training.choices import NONE
from cclmark_training.memory import memory_of
from cclmark_training.plan import Training, check_training
from cclmark_training.torch.trainer import Setup
from cclmark_training.torch.training_runner import token_batches, trainer_of

RANKS, STEPS, LENGTH, SEED = 2, 4, 24, 3
RATES = {"sgd": 0.5, "adamw": 3e-3}
CASES = [
    ("ddp", "tiny", "sgd"),
    ("zero1", "tiny-llama", "adamw"),
    ("fsdp", "tiny", "sgd"),
    ("fsdp", "tiny-moe", "adamw"),
    ("tp", "tiny", "sgd"),
    ("tp", "tiny-llama", "sgd"),
    ("pp", "tiny", "sgd"),
    ("pp", "tiny-llama", "adamw"),
    ("ep", "tiny-moe", "sgd"),
]


PEAKS = [
    ("ddp", "tiny", "float32"),
    ("ddp", "tiny", "mixed"),
    ("fsdp", "tiny", "mixed"),
    ("fsdp", "tiny-llama", "float32"),
    ("tp", "tiny", "float32"),
    ("pp", "tiny", "float32"),
    ("ep", "tiny-moe", "float32"),
]
PEAK_BATCH, PEAK_LENGTH = 8, 64
COUNTED = [("fsdp", "tiny"), ("fsdp", "tiny-llama"), ("tp", "tiny"), ("tp", "tiny-llama")]


def training_of(parallel, model, ranks, batch, optimizer, *, dtype="float32", length=LENGTH):
    """A training that is possible."""
    training = Training(
        variant=DEFAULT,
        round=0,
        ccl="torch:gloo",
        model=find_model(model, None),
        parallel=parallel,
        ranks=ranks,
        batch=batch,
        sequence=length,
        dtype=dtype,
        optimizer=optimizer,
        learning_rate=RATES[optimizer],
        microbatches=2 if parallel == "pp" else 0,
    )
    check_training(training)
    return training


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


def peak(parallel, model, dtype, rank):
    """The estimated memory, and the largest of this rank's tensors in two steps."""
    training = training_of(
        *(parallel, model, RANKS, PEAK_BATCH, "adamw"), dtype=dtype, length=PEAK_LENGTH
    )
    setup = Setup(training, rank, RANKS, torch.device("cpu"), SEED)
    with Peak() as found:
        trainer = trainer_of(setup)
        vocabulary = training.model.vocabulary
        tokens = token_batches(SEED, vocabulary, setup.sequences, PEAK_LENGTH, setup.device)[0]
        for _ in range(2):  # the first one creates the optimizer's state
            trainer.step(tokens)
    return memory_of(training).total, found.bytes


def communication(parallel, model, rank):
    """The calls of a step by their names."""
    training = training_of(parallel, model, RANKS, 2, "adamw")
    setup = Setup(training, rank, RANKS, torch.device("cpu"), SEED)
    trainer = trainer_of(setup)
    vocabulary = training.model.vocabulary
    tokens = token_batches(SEED, vocabulary, setup.sequences, LENGTH, setup.device)[0]
    trainer.step(tokens)
    with CommDebugMode() as found:
        trainer.step(tokens)
    return {str(name): number for name, number in found.get_comm_counts().items()}


def losses(parallel, model, optimizer, rank, ranks, batch, seed=SEED):
    """The losses of this rank, and the ranks whose losses count."""
    training = training_of(parallel, model, ranks, batch, optimizer)
    setup = Setup(training, rank, ranks, torch.device("cpu"), SEED)
    trainer = trainer_of(setup)
    vocabulary = training.model.vocabulary
    batches = token_batches(seed, vocabulary, setup.sequences, LENGTH, setup.device)
    return [float(trainer.step(batches[step])) for step in range(STEPS)], trainer.loss_ranks


@functools.cache
def alone_with_all_data(model, optimizer, seed=SEED):
    """The losses of a single rank."""
    return losses(NONE, model, optimizer, 0, 1, 4, seed=seed)[0]


def main():
    file = sys.argv[1]
    rank = 0 if os.fork() else 1  # one import of torch, which takes seconds, is enough
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=RANKS)
    found = []
    for parallel, model, optimizer in CASES:
        batch = 4 if parallel in ("tp", "pp") else 2  # of all ranks, or of each
        own, counted = losses(parallel, model, optimizer, rank, RANKS, batch)
        everyone = torch.zeros(RANKS, STEPS, dtype=torch.float64)
        everyone[rank] = torch.tensor(own, dtype=torch.float64)
        dist.all_reduce(everyone)
        together = everyone[counted or list(range(RANKS))].mean(dim=0).tolist()
        if rank != 0:
            continue
        alone = alone_with_all_data(model, optimizer)
        other = alone_with_all_data(model, optimizer, SEED + 1)
        found.append([parallel, model, optimizer, together, alone, other])
    peaks = []
    for parallel, model, dtype in PEAKS:
        estimated, own = peak(parallel, model, dtype, rank)
        largest = torch.tensor(own)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        peaks.append([parallel, model, dtype, estimated, int(largest)])
    counts = [[*one, communication(*one, rank)] for one in COUNTED]
    dist.barrier()
    if rank == 0:
        print(json.dumps({"losses": found, "peaks": peaks, "communication": counts}), flush=True)
    os._exit(0)  # gloo's threads may still run


if __name__ == "__main__":
    main()
