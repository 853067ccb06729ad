"""``cclmark run``."""
