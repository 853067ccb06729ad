"""From samples to figures and findings: pure functions of values, which read and write nothing.

Imports: base, explain, journal, work.

- Times: ``summary.py`` (which figures of a case are judged), ``stopping.py`` (end of warm-up and
  sampling).
- Comparison: ``ratio.py`` and ``paired.py`` (ratios with intervals, and the rounds of a variant:
  status, interval, ratio to the default), ``run_noise.py`` (noise from run to run), ``change.py``
  (changes over time).
- Findings: ``findings.py`` begins a run's list, and compares libraries; ``irregularities.py``
  (times between neighbouring sizes, changes of the library's choice), ``outliers.py``,
  ``hosts.py``, ``links.py`` (limits of links, paths of the library against the topology).
- Steps of trainings and programs: ``steps.py``.

Figures of one kind of work are in its room (``kinds/*/figures.py``), those of a case in
``journal/summaries.py``. Ranks call ``stopping.py`` with the times of all ranks, so functions here
must be deterministic. Start with
``summary.py`` and ``findings.py``; definitions and derivations are in docs/methodology.md.
"""
