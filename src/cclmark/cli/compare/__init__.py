"""``cclmark compare``."""
