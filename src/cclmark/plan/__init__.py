"""What to measure: sizes, operations, cases. Values only; nothing here runs anything."""
