"""What a replay does with the time between calls, without what is slow to import."""

#: Each call begins as long after the one before it on its stream as in the program; at its moment
#: of the program; or at once.
KEEP, FIXED, DROP = "keep", "fixed", "drop"
GAPS = (KEEP, FIXED, DROP)
