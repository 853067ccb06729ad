"""Calls with Python objects through torch.distributed, beside the same data as tensors.

``plan.py`` lists the calls and creates the objects of every rank from size and rank alone, so each
rank knows those of all others. ``run.py`` times both forms and compares the objects received;
``figures.py`` has the time, the time with tensors and the ratio.

Rooms imported: check (the options of commands with torch). Start with ``plan.py`` and ``run.py``.
"""
