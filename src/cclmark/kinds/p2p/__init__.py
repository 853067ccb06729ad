"""Copies and messages between devices: ``cclmark p2p``.

Items and results are ``work/transfers.py`` and ``journal/item_results.py``. One rank holds all
devices of an accelerator, unless ``--is-multi-proc`` or the host ask for one each.
``transfer_runner.py`` times copies behind a gate until the median converges and verifies them, with
engine/transfer; ``host_transfers.py``: between hosts a library moves the messages. ``run.py``
selects among them. ``trace.py`` records one transfer for ``cclmark trace p2p``.

``figures.py``: bandwidths, what stands out, and matrices; ``formats.py``: PCCL's text.

Rooms imported: collective (the choice of the library between hosts), pairs (messages are measured
as cases of pairs). Start with ``request.py``, which makes the plan, and ``run.py``.
"""
