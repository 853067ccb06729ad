"""``cclmark export``."""
