"""``cclmark trace``."""
