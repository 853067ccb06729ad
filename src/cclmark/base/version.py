"""The version of this program, in a module that imports nothing."""

VERSION = "0.1.0"
