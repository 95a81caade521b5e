"""What comes to the gateway's desk and waits there: reports of probes elsewhere, escalations, approvals.

- probes.py: what probes elsewhere tell, and what they are told to do
- escalations.py: one inbox for runs and probes
- approvals.py: what a second person must agree to
- tokens.py: who may use the gateway, as events

All of it is in the ledger. What is remembered here is only how far it was read: every request first reads what came
since, and appends only where nothing came in between. So any number of gateways may work on one ledger.
"""
