"""What anybody may ask of Recoup, once: a typed request in, a typed document out. Every edge calls these and only
translates; none asks the ledger. Each operation is a function that is given the `App`, the request and who asks.

Runs:
    submission.py       submit a run to a queue, or retry one that ended
    recording.py        record a run that is to be driven; what it would reuse
    control.py          steer a run, or say what a control would do
    bulk.py             cancel or retry many
    runs.py             list and count runs; one as a document; its attempts
    run_states.py       states for those who look again and again: folded once
    events.py           facts: of a run, of any stream, of all streams as they came
    tail.py             one look at the ledger for everybody who watches
    logs.py, evidence.py, reports.py   what runs left behind
    queues.py           queues, workers, and who drives what
    plan_shelf.py       plans that came as text a moment ago
    lookup.py           one run by its whole id, one step by its id or index
    cursor.py           places in lists, as text

People:
    escalations.py      one inbox for runs and probes
    approvals.py        what a second person must agree to
    declining.py        what these two and probes elsewhere are refused
    heals.py            heals, and people's words about them
    heal_acceptance.py  what accepting heals changes in their plans
    heal_reviews.py     the heals of all workflows, at hand

Workflows and the rest:
    workflows.py        which there are, their modes, and an operator's word about one
    memory.py           what one has learned: versions, differences, going back
    policies.py         the policy in force, and what another one would have decided
    probes.py           probes of this machine
    probe_reports.py    probes elsewhere: what they tell, and what they are told to do
    audit.py            export and verify the audit
    retention.py        forget runs that ended long ago
    gateway_facts.py    who may use the gateway and whom it tells, as events

Classes here are given a ledger, redactors and a clock, and remember only how far a stream was read: every request first
reads what came since, and appends only where nothing came in between. So any number of gateways work on one ledger.

To add an operation: a function here, its name in OPERATIONS of tests/unit/test_operations.py, and a call at each edge
or a reason in LEFT_OUT. To add an argument of a submission: a field of `SubmitRequest`, and an option at each edge.
"""
