"""Kinds of check, and where outputs are found: one module each, which says everything about it.

    kind.py         what a kind of check answers
    registry.py     which there are, each by the place of its object
    exit.py, file.py, printed.py, json.py, run.py, diff.py
    page/           those that look at the page of the run's browser
    custom.py       those that other packages bring
    sources/        where outputs are found
    filling.py      references in what a step expects
    inspector.py    examines checks and collects outputs, and redacts what it says about them

To add a check: a module with a `CheckKind` and a line in registry.py; and a struct in `model/plan.py`, because every
process must be able to read a stored plan. Nobody else may know its name (tests/unit/test_check_kinds.py).
"""
