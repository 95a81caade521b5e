"""Workers: who takes which run, for how long, and what becomes of those whose worker was lost."""
