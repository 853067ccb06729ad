"""``cclmark references``."""
