"""Experiments: settings side by side, round after round."""
