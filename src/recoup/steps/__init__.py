"""Kinds of step. Everything about a kind stands in its own folder, and nobody else knows it by its name.

    kind.py      what a kind answers: where references stand, what they become, what performs it, its words
    kind_shape.py   the keys of a kind as people write them
    registry.py  which kinds there are, each loaded when it is first asked for
    hooks.py     what the engine may ask of a kind that keeps something between attempts
    run/         shell scripts and commands
    python/      functions in a process of their own
    agent/       coding agents; their command lines are `runtimes/agent/`
    browser/     one thing done in the run's browser; what a run keeps of its page
    approve/     gates: a person is asked

To add a kind: a package with a `StepKind` and its `KindShape`, and a line in `registry.BUILT_IN`.
"""
