"""Statements about several runs on one page.

``several_runs.py`` composes them. The statements about one run are in the room of its kind and in
``cclmark.document``.
"""
