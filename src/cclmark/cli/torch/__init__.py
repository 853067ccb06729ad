"""``cclmark torch``."""
