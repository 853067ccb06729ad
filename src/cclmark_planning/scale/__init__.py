"""What a training job communicates, and what that costs, from formulas: nothing is measured.

``planned_models.py`` knows published models and reads others. ``frameworks.py`` has what help texts
list. ``layout.py`` divides a job's devices into groups and places them on nodes.
``training_job.py`` is a job, and the parameters and buckets that a device of it holds;
``traffic.py`` lists the messages that a device sends in a step. ``step.py`` computes the time of a
step on a network, and the network that a step requires.

Start with ``training_job.py``.
"""
