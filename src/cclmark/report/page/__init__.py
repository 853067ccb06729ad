"""Pages of runs and comparisons."""
