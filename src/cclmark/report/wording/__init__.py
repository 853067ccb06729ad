"""Findings and figures as text, shared by all formats."""
