"""The way to the gateway and back: facts go out in order, at least once; commands come in, and are carried out once.

- link.py: both together, as a probe holds them
- sender.py: the events of the ledger, from where the gateway has them
- cursor.py: how far that is, in a small file
- listener.py: what the gateway asks for
- client.py: one request and its answer

Nothing waits for the gateway: while it is away the ledger keeps what it has to be told.
"""
