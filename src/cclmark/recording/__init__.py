"""Around a run: joining the processes of a launcher, the journal, what is printed, resuming."""
