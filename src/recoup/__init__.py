"""Recoup gets long automated work through failure."""

__version__ = "0.1.0"
