"""``cclmark settings``."""
