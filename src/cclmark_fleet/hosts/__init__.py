"""What a host says of itself, judged: checks of devices, links, limits, counters and variables.

- ``host_probe.py``: all that is read of a host goes through a probe; ``recorded_host.py``: its
  answers in a file, anonymised, and judged anywhere.
- ``tool_texts.py``: outputs of tools and of the kernel as values; ``host.py``: what checks ask.
- ``check.py``: what a check is; ``checks/``: the checks, with their list; ``shipped_data.py``:
  limits and tables, each row with its source (``data/*.toml``).
- ``examination.py``: all checks on one host.

Start with ``check.py``. How to add a check: docs/extend/add-a-check.md.
"""
