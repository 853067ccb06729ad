"""The page: one HTML file that needs nothing else."""
