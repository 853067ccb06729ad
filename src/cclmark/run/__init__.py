"""What one rank does: the only room that touches the engine."""
