"""The model of a training and its parallelisms. Imports torch, so only ranks of trainings do it.

``transformer.py`` has the models, created on torch's meta device and filled from the seed and the
names of parameters, so that every parallelism starts from the same values. ``trainer.py`` is the
interface of a parallelism (``Trainer``), what several share, and DDP and ZeRO-1; ``meshed.py``
(FSDP2, tensor and pipeline parallelism, and layouts of several) and ``expert_parallel.py`` are
imported if they are chosen. ``training_runner.py`` checks what torch has, and measures;
``call_recorder.py`` counts what a step calls in which group.
"""
