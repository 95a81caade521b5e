"""One browser for each run. Perform one action in it, look at its page for checks; never retry, never decide."""
