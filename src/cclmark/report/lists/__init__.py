"""What the commands that do not measure print."""
