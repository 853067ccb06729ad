"""What a run shows, in sentences: a module for each question."""
