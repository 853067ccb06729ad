"""Output of the commands that do not measure."""
