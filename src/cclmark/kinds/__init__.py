"""Rooms of kinds of work: what a kind computes from its results, and what it says about them."""
