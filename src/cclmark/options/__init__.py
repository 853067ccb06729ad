"""Options of commands: what several commands have, and what becomes of it."""
