"""``cclmark import``."""
