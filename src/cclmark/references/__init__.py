"""Published figures and those of a user's own machines, and what results are compared with."""
