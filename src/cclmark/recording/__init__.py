"""What a measuring command does around a run: joining, recording, printing, resuming."""
