"""``cclmark replay``."""
