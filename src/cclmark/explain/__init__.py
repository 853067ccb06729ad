"""What a library did: operations in the NCCL plug-in's log and in log lines, across ranks.

Imports: base, work.

- ``plugin_log.py`` reads the log of the plug-in (engine/plugin/event_log.hpp); ``nccl_log.py``
  reads log lines of NCCL and FlagCX.
- ``operation.py`` is an operation that a library reports; ``calls.py`` counts and compares those
  of all ranks.
- ``paths.py``: how a library connects ranks: routes, rings and trees.
- ``algorithm_steps.py``: the steps of an operation's algorithm.
- ``chaining.py``: other plug-ins of the user, which cclmark's plug-in loads too.

How a run is explained (``--explain``): a second attempt follows the measurement
(``launch/launching.py``), because NCCL reads the variables of its plug-ins only once in a
process. Its ranks observe (``rank/explaining.py``, ``rank/instruments.py``), and
``launch/rank_messages.py`` combines their observations. Start with ``calls.py``.
"""
