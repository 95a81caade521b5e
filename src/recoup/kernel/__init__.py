"""Decisions: plain functions from values to values. No I/O, clock, randomness, logging, `async`, globals."""
