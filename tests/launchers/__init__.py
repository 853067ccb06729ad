"""A package, so that its conftest.py and modules do not stand in for others of the same name."""
