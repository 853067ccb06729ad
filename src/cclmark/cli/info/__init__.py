"""``cclmark info``."""
