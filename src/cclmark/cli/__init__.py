"""The command line: one file per command, which only connects the other packages."""
