"""Rooms of kinds of work: everything about one kind is in one package.

Imports: analysis, base, document, explain, journal, launch, options, rank, recording,
references, rendezvous, trace, work.

A room has these files, as far as its kind needs them:

- ``plan.py``: items; ``result.py``: what a journal keeps of them.
- ``run.py``: what a rank does. With the modules that only it imports, the one file that imports
  the engine.
- ``figures.py``: what is computed from results; ``document.py``: everything that a run says. Like
  plan, result and record, they import nothing that measures.
- ``command.py``: options, imported for help texts, so it imports little; ``request.py``: from
  options to a run.
- ``kind.py``: the record (``journal/kind.py``), which imports the work of a rank and the document
  on demand.

``registry.py`` lists the records and reads journals of any kind. Collectives, pairs and copies have
their items and results in ``work/`` and ``journal/``, because packages below the rooms use them. A
room imports another one only where its work consists of the other's; its docstring lists these. How
to add a kind: docs/extend/add-a-kind.md.
"""
