"""The model of a training and its parallelisms. Imports torch, so only ranks of trainings do it.

``transformer.py`` has the models, created on torch's meta device and filled from the seed and the
names of parameters, so that every parallelism starts from the same values. ``trainer.py`` is the
interface of a parallelism (``Trainer``) and what several share; ``data_parallel.py`` (DDP, ZeRO-1),
``sharded.py`` (FSDP2), ``tensor_parallel.py``, ``pipeline.py`` and ``expert_parallel.py`` implement
it, and ``parallelisms.py`` chooses and checks what torch has.
"""
