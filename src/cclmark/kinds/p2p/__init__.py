"""Copies and messages between devices."""
