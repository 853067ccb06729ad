"""The columns and tables of each kind of work."""
