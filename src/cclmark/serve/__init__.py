"""The history in a browser: its runs, their reports, overlays, comparisons and trends.

All access is read only. The package depends on the history, the analysis and the reports, not on
the code that runs measurements. ``from cclmark.serve.app import make_app`` needs Starlette.
"""
