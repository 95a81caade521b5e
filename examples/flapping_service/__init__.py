"""A service flaps on a developer's machine."""
