"""Checks of a framework's backend."""
