"""Calls with objects through a framework."""
