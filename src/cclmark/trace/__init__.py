"""Timelines of runs: what ranks recorded, on one clock, as files for a trace viewer."""
