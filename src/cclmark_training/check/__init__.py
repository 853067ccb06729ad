"""Checks of a framework's backend: ``cclmark torch check``.

Each check calls an operation of torch.distributed as a training program does, and compares its
output. ``plan.py`` lists the checks, ``torch_checks.py`` performs them with torch, ``run.py`` is
the work of a rank. ``document.py`` reports what passed, failed or is not supported.

Rooms imported: none. Start with ``torch_checks.py`` and ``plan.py``.
"""
