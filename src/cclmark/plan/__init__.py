"""The description of measurements: sizes, operations, cases. Plain values without side effects."""
