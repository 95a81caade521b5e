"""Heals, looked through by people: what accepting one changes in its plan, and a person's word about it."""
