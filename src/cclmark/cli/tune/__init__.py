"""``cclmark tune``."""
