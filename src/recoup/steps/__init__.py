"""Kinds of step: everything about one kind, and nothing about others.

    hooks.py    what the engine may ask of a kind that keeps something between attempts
    browser/    what steps in a browser keep: their page, its proofs, what was learned about their targets

To add such a kind: implement `StatefulKind` in a package of its own and name it in `app.py`. The engine knows
no kind by its name (tests/unit/test_engine_knows_no_kind.py).
"""
