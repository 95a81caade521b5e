"""The attempt loop: the only place that turns a decision about a run into effects.

    driver.py            one delivery of one run: the loop, its turns, and what goes on beside it
    desk.py              what a driver works with
    step_turns.py        what is done for a step when it is its turn: an attempt, a rebuild, its handlers
    attempt.py           performs one attempt; handlers.py performs handlers
    verification.py      what an attempt came to; unknown_outcome.py asks the world where nobody knows
    settlement.py        the decision about it, recorded in one transaction; shared_commits.py what goes with it
    interventions.py     controls, interruptions, the loss of the lease; operators.py carries controls out
    kinds.py             asks the kinds of step in the plan through their hooks (recoup/steps/hooks.py)
    recorder.py          seals, appends, folds, shows

To add what a kind of step keeps between attempts, write its hooks: nothing here knows a kind by its name.
"""
