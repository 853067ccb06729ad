"""What training programs do with torch: the rooms of the kinds that need it.

Here is that of trainings: steps of a model that the ranks train, with and without communication.
``check/`` has checks of a backend of torch.distributed, ``objects/`` calls with Python objects, and
``backend/`` their commands, ``cclmark torch``. ``torch_loop.py`` is what the three do on a rank.

An item has a variant and a round, as a trial. Three parts import torch, so only ranks of this kind
import them: ``torch/``, the model and a module for each parallelism, which provides a ``Trainer``;
``torch/stepping.py``, which runs steps in blocks until their times are known and reads the timeline
of torch's profiler; ``torch/training_runner.py``, which connects these and compares the parameters
of replicas.
``layout.py`` says how many ranks each dimension of a mesh has, and ``recipes.py`` has numbers of
other programs.
``memory.py`` decides before any allocation whether a training can fit, and searches the changes
with which it would.

``figures.py`` computes rates and what communication costs from the times in the journal; a step has
the same columns as in profiles (``analysis/steps.py``). ``document.py`` composes everything that a
run says. ``choices.py`` has names that help texts list, without what is slow to import.

Rooms imported: none. Start with ``document.py`` and ``run.py``.
"""
