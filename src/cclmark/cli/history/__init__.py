"""``cclmark history``."""
