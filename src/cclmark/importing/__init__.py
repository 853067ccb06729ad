"""Imports outputs of other tools as journals. One file for each format, see importers.py."""
