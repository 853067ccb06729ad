"""The work of one rank. Only this package uses the engine."""
