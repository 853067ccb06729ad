"""One of two ranks that train with every parallelism on gloo; rank 0 prints the losses as JSON.

    python parallel_losses.py RANK FILE

``FILE``: where the ranks meet. The output: by parallelism, model and optimizer, the losses of all
ranks together and those of one rank with the same data.
"""

from __future__ import annotations

import json
import os
import sys
import warnings

import torch
import torch.distributed as dist

from cclmark.plan.models import find_model
from cclmark.plan.training_choices import NONE, SAME_DATA
from cclmark.plan.trainings import Training, check_training
from cclmark.plan.variants import DEFAULT
from cclmark.run.training.parallelisms import trainer_of
from cclmark.run.training.tokens import token_batches
from cclmark.run.training.trainer import Setup

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


def losses(parallel, model, optimizer, rank, ranks, batch, seed=SEED):
    """The losses of this rank, and the ranks whose losses count."""
    training = Training(
        variant=DEFAULT,
        round=0,
        ccl="torch:gloo",
        model=find_model(model, None),
        parallel=parallel,
        ranks=ranks,
        batch=batch,
        sequence=LENGTH,
        dtype="float32",
        optimizer=optimizer,
        learning_rate=RATES[optimizer],
        microbatches=2 if parallel == "pp" else 0,
    )
    check_training(training)
    setup = Setup(training, rank, ranks, torch.device("cpu"), SEED)
    trainer = trainer_of(setup)
    vocabulary = training.model.vocabulary
    batches = token_batches(seed, vocabulary, setup.sequences, LENGTH, setup.device)
    return [float(trainer.step(batches[step])) for step in range(STEPS)], trainer.loss_ranks


def main():
    rank, file = int(sys.argv[1]), sys.argv[2]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=RANKS)
    found = []
    for parallel, model, optimizer in CASES:
        batch = 4 if parallel in SAME_DATA else 2
        own, counted = losses(parallel, model, optimizer, rank, RANKS, batch)
        everyone = torch.zeros(RANKS, STEPS, dtype=torch.float64)
        everyone[rank] = torch.tensor(own, dtype=torch.float64)
        dist.all_reduce(everyone)
        together = everyone[counted or list(range(RANKS))].mean(dim=0).tolist()
        alone, _ = losses(NONE, model, optimizer, 0, 1, 4)
        other, _ = losses(NONE, model, optimizer, 0, 1, 4, seed=SEED + 1)
        found.append([parallel, model, optimizer, together, alone, other])
    dist.barrier()
    if rank == 0:
        print(json.dumps(found), flush=True)
    os._exit(0)  # gloo's threads may still run


if __name__ == "__main__":
    main()
