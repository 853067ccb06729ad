"""``cclmark experiment``."""
