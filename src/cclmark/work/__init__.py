"""What is measured: items, operations, sizes, libraries, variants. Plain values, no side effects.

Imports: base.

- ``items.py``: the interface of all items. ``cases.py``, ``transfers.py``, ``pair_cases.py``: items
  of collectives, copies and pairs; those of other kinds are in their rooms.
- ``operations.py``: the table of operations, the same rows as engine/collective/table.cpp.
- ``sizes.py``: values as users write them; ``counts.py``: numbers with a lower bound.
- ``libraries.py``: the libraries of ``--ccl``, read by ``library_files.py`` from
  ``cclmark/libraries/*.toml``; settings and their possible values:
  ``setting_fields.py``, ``library_settings.py``. ``torch_devices.py``: devices of torch.
- ``variants.py``: settings compared with the default; ``islands.py``: ranks by library, for the
  bridge; ``models.py``: shapes of transformers; ``thresholds.py``: bounds in suites.
- ``intervals.py``: intervals of time, their union and what others leave free.
- ``inject.py``: faults that tests and users inject; ``binding.py``: ``--bind``.

Start with ``items.py`` and ``cases.py``.
"""
