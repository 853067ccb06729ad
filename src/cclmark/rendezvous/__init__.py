"""The control plane between the launcher and its ranks."""
