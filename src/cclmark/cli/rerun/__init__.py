"""``cclmark rerun``."""
