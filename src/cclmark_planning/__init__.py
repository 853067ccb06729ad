"""What follows from formulas, measured runs and simulated networks: nothing here is measured.

A room for each kind: ``need/``, the network that a training job requires; ``predict/``, times on
more nodes than were measured; ``scaling/``, the steps of a job on more GPUs; ``simulate/``,
collectives on a network that need not exist. ``scale/`` has the formulas, ``job_options.py`` the
options that describe a job, and ``tables.py`` reads tables that users write. ``predict`` and
``simulate`` require numpy, scipy and networkx, the extra ``scale``.

Start with ``need/plan.py``.
"""
