"""The ledger's events as a chain of lines in files, for people who must not take our word for it.

A projection: it decides nothing, everything in it can be exported again, and its failure harms no run.
"""
