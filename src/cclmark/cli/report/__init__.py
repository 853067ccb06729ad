"""``cclmark report``."""
