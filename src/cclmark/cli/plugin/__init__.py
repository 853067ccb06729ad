"""``cclmark plugin``."""
