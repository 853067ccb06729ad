"""The parts of a measuring command around a run: joining, recording, printing, resuming."""
