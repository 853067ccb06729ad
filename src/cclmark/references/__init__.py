"""Published figures and figures of the user's own machines, for comparison with results."""
