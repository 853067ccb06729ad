"""``cclmark profile``."""
