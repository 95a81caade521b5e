"""The one way text may reach storage: every registered secret is masked, in every form it is written in.

Only this room calls `recoup.model.redacted.sealed`. Secrets are kept in memory and nowhere else,
and no message of this room holds one.
"""
