"""What a replay does with the time between calls, without what is slow to import."""

#: Each call begins as long as in the program after the last one that had ended before it; at its
#: moment of the program; after as much compute as takes until this moment; or at once.
KEEP, FIXED, COMPUTE, DROP = "keep", "fixed", "compute", "drop"
GAPS = (KEEP, FIXED, COMPUTE, DROP)
