"""``cclmark pairs``."""
