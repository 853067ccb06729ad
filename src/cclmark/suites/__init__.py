"""Acceptance suites: what they contain, their checks, and how verdicts are written."""
