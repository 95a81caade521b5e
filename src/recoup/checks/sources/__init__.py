"""Where the outputs of a step are found: one module for each way, which says everything about it.

To add one: a module with an `OutputSource` and a line in registry.py; and a struct in `model/plan.py`, because every
process must be able to read a stored plan. Nobody else may know its name (tests/unit/test_check_kinds.py).
"""
