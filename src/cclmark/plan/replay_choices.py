"""What a replay does with the time between calls, without what is slow to import."""

#: Each call begins as long as in the program after the last one that had ended before it; at its
#: moment of the program; or at once.
KEEP, FIXED, DROP = "keep", "fixed", "drop"
GAPS = (KEEP, FIXED, DROP)
