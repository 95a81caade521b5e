"""Secrets that nobody registered, found by the shapes they are written in.

Rules come from an installed package and from this room. One linear-time engine screens everything, another finds
the spans in the few places that the screen points at; nothing here backtracks, and no rule's text is unbounded work.
"""
