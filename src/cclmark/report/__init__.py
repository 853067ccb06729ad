"""Exporters, which convert results to text. One file for each format."""
