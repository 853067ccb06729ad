"""The command line: one file per command; it only wires the other rooms."""
