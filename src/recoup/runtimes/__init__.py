"""Perform one attempt of one step and report an `Outcome`. Never retry, never decide."""
