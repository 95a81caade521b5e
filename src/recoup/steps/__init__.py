"""Kinds of step. Everything about a kind stands in its own folder, and nobody else knows it by its name.

    kind.py         what a kind answers: where references stand, what they become, what performs it, its words
    kind_shape.py   the keys of a kind as people write them
    registry.py     which kinds there are, each loaded when it is first asked for
    hooks.py        what the engine may ask of a kind that keeps something between attempts
    runtimes.py     what performs them, and what they keep, made when the first step of a kind comes
    custom.py       kinds whose action is plain JSON: those of other packages, and what stands in for an absent one
    custom_keys.py  what people write in these
    run/            shell scripts and commands
    python/         functions in a process of their own
    agent/          coding agents; their command lines are `runtimes/agent/`
    browser/        one thing done in the run's browser; what a run keeps of its page
    approve/        gates: a person is asked

To add a kind: a folder with a `StepKind` (a `CustomStep` needs no struct in the model) and its `KindShape`, a line in
`registry.BUILT_IN`, and an example in `docs/reference/plan.md`. Nothing else may know its name
(`tests/unit/test_step_kinds.py`).
"""
