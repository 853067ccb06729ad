"""The command ``experiment``."""
