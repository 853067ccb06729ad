"""What a library did: operations in the NCCL plug-in's log and in log lines, across ranks.

Imports: plan.

- ``plugin_log.py`` reads the log of the plug-in (engine/plugin/event_log.hpp), ``log_calls.py``
  counts long ones; ``nccl_log.py`` and ``paths_log.py`` read log lines of NCCL and FlagCX.
- ``operation.py`` is an operation that a library reports; ``calls.py`` compares those of all ranks.
- ``paths.py``, ``shapes.py`` (rings and trees): how a library connects ranks.
- ``steps/``: the steps of an operation's algorithm.
- ``chaining.py``: other plug-ins of the user, which cclmark's plug-in loads too.

How a run is explained (``--explain``): a second attempt follows the measurement
(``launch/launching.py``), because NCCL reads the variables of its plug-ins only once in a
process. Its ranks observe (``run/explaining.py``, ``run/instruments.py``), and
``launch/rank_messages.py`` combines their observations. Start with ``calls.py``.
"""
