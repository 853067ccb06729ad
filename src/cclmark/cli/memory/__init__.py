"""``cclmark memory``."""
