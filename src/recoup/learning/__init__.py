"""What a workflow has learned, as versions on disk, and vectors that say what is like what.

A version is whole or not there, and every byte of it is checked before it is used. Vectors propose; they never choose.
What was learned is decided elsewhere: the ledger is the truth, and a version is one point of it, ready for use.
"""
