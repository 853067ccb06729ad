"""From samples to figures: pure functions on values."""
