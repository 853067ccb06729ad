"""The findings of a run in sentences, with a module for each question."""
