"""The steps of an operation's algorithm: what each rank passes on to which, stage by stage.

``step.py`` is what a step is. ``ring.py``, ``tree.py`` and ``doubling.py`` derive the steps of
textbook algorithms from the order of the ranks, ``message_steps.py`` creates them from the sends
that a library reports, and ``planned.py`` from the plan of cclmark's engine.
``cclmark.trace.case_steps`` chooses among them.
"""
