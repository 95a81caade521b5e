"""A coding agent is left alone for a night."""
