"""What anybody may ask of Recoup, once: a typed request in, a typed document out. Every edge calls these and only
translates.

    submission.py   submit a run to a queue
    control.py      steer a run, or say what a control would do
    plan_shelf.py   plans that came as text a moment ago
    workflows.py    which workflows there are, their modes, and an operator's word about one
    lookup.py       one run by its whole id, one step by its id or index
    cursor.py       places in lists, as text

To add an argument of a submission: a field of `SubmitRequest`, and an option at each edge
(tests/unit/test_operations.py says which are missing).
"""
