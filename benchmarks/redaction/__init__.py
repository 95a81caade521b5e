"""Redaction as the shared evaluator wants it."""
