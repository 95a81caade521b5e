"""What anybody may ask of Recoup, once: a typed request in, a typed document out. Every edge calls these and only
translates. Each operation is a function that is given the `App`, the request and who asks.

    submission.py       submit a run to a queue, or retry one that ended
    recording.py        record a run that is to be driven; what it would reuse
    control.py          steer a run, or say what a control would do
    plan_shelf.py       plans that came as text a moment ago
    workflows.py        which workflows there are, their modes, and an operator's word about one
    memory.py           what a workflow has learned: versions, differences, going back
    heals.py            heals, and people's words about them
    heal_acceptance.py  what accepting a heal changes in its plan
    escalations.py      one inbox for runs and probes
    approvals.py        what a second person must agree to
    declining.py        what these two do not take
    probes.py           probes of this machine
    probe_reports.py    probes elsewhere: what they tell, and what they are told to do
    policies.py         the policy in force, and what another one would have decided
    retention.py        forget runs that ended long ago
    tokens.py           who may use the gateway, as events
    lookup.py           one run by its whole id, one step by its id or index
    cursor.py           places in lists, as text

Classes here are given a ledger, redactors and a clock, and remember only how far a stream was read: every request
first reads what came since, and appends only where nothing came in between. So any number of gateways may work on one
ledger.

To add an operation: a function here, its name in `AT_EDGES` of tests/unit/test_operations.py, and a call at each edge,
or a reason there. To add an argument of a submission: a field of `SubmitRequest`, and an option at each edge.
"""
