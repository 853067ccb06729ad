"""Exporters: results in, text out. One file per format."""
