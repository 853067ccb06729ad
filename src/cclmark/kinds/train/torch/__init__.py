"""Training steps on one rank: the model, its parallelisms, the measurement. Imports torch."""
