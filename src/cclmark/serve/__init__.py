"""The history in a browser: its runs, their reports, overlays, comparisons and trends.

Everything is read only. Nothing here knows how a run is made: the room stands on the history, the
analysis and the reports. ``from cclmark.serve.app import make_app`` needs Starlette.
"""
