"""The commands of the collectives."""
