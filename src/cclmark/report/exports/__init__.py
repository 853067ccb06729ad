"""Journals as flat, typed tables: a row for each case, or for each raw sample."""
