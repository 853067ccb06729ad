"""Collectives between all ranks."""
