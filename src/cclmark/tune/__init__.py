"""Searches for faster settings and proves them: statistics only, the caller measures."""
