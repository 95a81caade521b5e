"""Carry hints that a run may be worth driving, one file per backend. A hint lost, late or repeated does no harm: the
ledger says what there is to do, and its lease who does it."""
