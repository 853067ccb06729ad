"""``cclmark p2p``."""
