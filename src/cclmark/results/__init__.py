"""The record of a run: the schema, the journal, the description of the machine."""
