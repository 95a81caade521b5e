"""Runs and who drives them: what is recorded of them, what it takes to drive one, and the workers that do. Whatever a
hint says, the lease decides.

    records.py      what is recorded of runs, and where their files are
    hiding.py       their secrets: registered, refused as names, kept for later drivers
    redactors.py    one redactor for each run that this process is concerned with
    linked.py       what a run that continues another may reuse, and must not repeat
    jobs.py         a run and all that it takes to drive it
    driving.py      a run is claimed and driven, or its controls are carried out
    delivering.py   one delivery of a run by a worker, or when to look again
    worker.py       takes hints, drives runs, takes up what others have lost
    queued.py       what a submission says about its queue
    chores.py       what is done now and then, and after each run

    abandoned.py, leftovers.py, sweeping.py   what killed processes and lost workers left
    overview.py     queues and workers as documents
"""
