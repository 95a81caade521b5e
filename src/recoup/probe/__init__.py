"""Bounded local recovery: a closed list of actions on processes and channels, a budget, then somebody is asked.

- supervisor.py: one probe from its start to its end
- minder.py: one resource: what happened to it, what the kernel says, what is done
- recorder.py: the probe's pen: facts are appended under its lease, many at once
- ports.py: what a kind and a check must be able to do; how to add one
- kinds/: one file for each kind of resource; kinds/links/: one for each way of holding a connection
- checks/: one file for each way of looking at one
- gateway/: the way to the gateway and back
- outboxes/: whom the file names to be told when the budget is spent, and the courier who tells them
- commands.py, port_owner.py, atomic_file.py: short commands; who is in the way; files that are never half written
- world.py: everything that is handed in

Whatever an action returns, a recovery has succeeded when the checks say so. Nothing is decided here, but in
`kernel/probe.py`.
"""
