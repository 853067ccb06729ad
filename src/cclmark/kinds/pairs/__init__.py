"""Collectives between every two ranks."""
