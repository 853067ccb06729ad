"""Journals as flat, typed tables: a row for each case or each raw sample."""
