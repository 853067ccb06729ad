"""``cclmark completion``: the script that completes command lines in a shell, by click."""
