"""Keep process trees: start, drain, time, kill, prove them dead. Knows nothing of steps.

- keeper.py: LinuxKeeper, one process tree seen from the driver
- keeper_process.py: starting the tree's keeper, speaking with it, letting it go
- keeper_main.py: the keeper itself, a process on a bare interpreter
- process_table.py: who is below whom, what they take, and signals that reach no stranger
- shared_process.py, shared_main.py: the same for many trees under one keeper, each behind an anchor
- drain.py, idle.py: the tree's output; the time since its last progress
- guard.py, guard_main.py: the same for a program that a library must start itself, such as a browser
- guard_folders.py: what guards leave that were killed together with their drivers
- marks.py: how everything that is kept is marked, and with whom
- identity.py: which process is which, for ever
- census.py: who is alive on this host, for the engine
- sweep.py: the last means, when the keeper, too, is gone
"""
