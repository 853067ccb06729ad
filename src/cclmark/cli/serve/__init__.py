"""``cclmark serve``."""
