"""Outputs of other tools, read into journals. One file for each format, see importers.py."""
