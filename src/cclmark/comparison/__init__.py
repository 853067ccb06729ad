"""Comparison of runs: figures, what differs in words, the page, and the gate."""
