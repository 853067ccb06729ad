"""What one rank does. Beside the module ``run`` of rooms, only this package imports the engine.

Imports: analysis, base, explain, journal, rendezvous, trace, work.

``worker.py`` is the process of a rank: it opens its devices and calls the runner of its kind
(``Kind.runner``) with a ``RankContext`` (``context.py``). ``rank.py`` is its state: job, phase and
connections; every phase is entered (``Rank.enter``), so that a rank that hangs there is found and
named. ``rank_binding.py`` binds it to processors.

- Items: ``item_loop.py`` has what all kinds do on a rank: libraries and communicators, buffers
  (``reserved_buffers.py``), one item after the other, results; ``torch_loop.py`` the same for kinds
  that use torch, by ``torch_backend.py``.
- Measurement of a case: ``measure.py`` (warm-up, sampling, verification). The times of all ranks
  are gathered on all ranks (between hosts by ``Rank._exchange_values``, never within a timed
  region), so all decide alike. ``all_or_none.py``: steps that all ranks complete or none.
- Libraries: ``opening.py`` opens what is measured (and joins islands), ``locate.py`` finds it,
  ``torch_ccl.py`` is torch.distributed as one (``torch_tensors.py``: its buffers and stream, and a
  product beside other libraries). ``engine_values.py``: cases and libraries as values of the
  engine.
- Observation: ``explaining.py`` (operations and connections), ``instruments.py`` (plug-in and logs,
  in files in memory), ``effective_settings.py``; ``context.py`` notes measured cases where no
  second process for a rank is possible. ``tracing.py``: the clock of a device for traces.
- Without a measurement: ``probe.py``, and ``effective_settings.py``.

Start with ``worker.py``, ``item_loop.py`` and ``measure.py``.
"""
