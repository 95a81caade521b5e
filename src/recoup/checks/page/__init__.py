"""Checks that look at the page of the run's browser. Each says what it must see there; the browser looks.

To add one: a module with a `PageKind`, and a line in `checks/registry.py`.
"""
