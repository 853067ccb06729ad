"""Measure, verify and explain the communication between accelerators."""

__version__ = "0.1.0"
