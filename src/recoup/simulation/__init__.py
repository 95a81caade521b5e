"""Runs that happened, decided again; and storms: runs that never happen, driven by the real engine on a real ledger, in
time that flies and with chance that can be repeated. Nothing here is used by a run of a user's."""
