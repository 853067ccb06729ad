"""Profiles: what programs communicate, from logs of the plug-in or traces of frameworks."""
