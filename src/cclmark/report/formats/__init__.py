"""The formats of output."""
