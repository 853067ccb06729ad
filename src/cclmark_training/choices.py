"""Names of models, parallelisms, types and optimizers, quickly imported: help texts list them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

#: In the order of work.models.MODELS.
MODEL_NAMES = (
    *("tiny", "tiny-llama", "tiny-moe", "gpt2", "gpt2-254m", "gpt2-medium", "gpt2-large"),
    *("gpt2-xl", "llama3.2-1b", "llama3-8b", "llama3-70b", "mixtral-8x7b"),
)

#: In the order of recipes.RECIPES.
RECIPE_NAMES = ("flagscale-llama3-8b",)

NONE, DDP, ZERO1, FSDP, TENSOR, PIPELINE, EXPERT = "none", "ddp", "zero1", "fsdp", "tp", "pp", "ep"
PARALLELISMS = {
    NONE: "not parallel",
    DDP: "data parallel (DistributedDataParallel)",
    ZERO1: "data parallel, optimizer state sharded (ZeroRedundancyOptimizer)",
    FSDP: "data parallel, parameters sharded (fully_shard)",
    TENSOR: "tensor parallel (parallelize_module)",
    PIPELINE: "pipeline parallel (Schedule1F1B)",
    EXPERT: "expert parallel (all_to_all_single)",
}
#: Several parallelisms at once, see layout.MeshLayout.
COMBINED = "combined"
#: Parallelisms of which all ranks hold equal parameters; with EXPERT those outside the experts.
REPLICATED = (DDP, ZERO1, EXPERT)
#: Parallelisms with float32 parameters beside products in bfloat16; COMBINED with shards.
MIXABLE = (NONE, DDP, ZERO1, FSDP)
#: Parallelisms with torch.compile.
COMPILABLE = (NONE, DDP, ZERO1)

#: Parameters, gradients and optimizer state in float32, products of matrices in bfloat16.
MIXED = "mixed"
#: Types of parameters, gradients and optimizer state, with the bytes of an element.
DTYPES = {"bfloat16": 2, "float32": 4, MIXED: 4}
#: The bytes of an element in products of matrices.
PRODUCT_BYTES = {"bfloat16": 2, "float32": 4, MIXED: 2}
DTYPE_ALIASES = {"bf16": "bfloat16", "fp32": "float32"}
ADAMW, SGD = "adamw", "sgd"
LEARNING_RATES = {ADAMW: 3e-4, SGD: 0.1}

# Enumerations for msgspec, texts for the type checker: see work.items.
if TYPE_CHECKING:
    Parallelism: TypeAlias = str
    TrainingType: TypeAlias = str
    Optimizer: TypeAlias = str
else:
    Parallelism = Literal[(*PARALLELISMS, COMBINED)]
    TrainingType = Literal[tuple(DTYPES)]
    Optimizer = Literal[tuple(LEARNING_RATES)]
