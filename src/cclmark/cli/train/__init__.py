"""``cclmark train``."""
