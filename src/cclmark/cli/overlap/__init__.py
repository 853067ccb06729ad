"""``cclmark overlap``."""
